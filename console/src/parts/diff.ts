/** Two versions of a text, line by line. */

import { html, type TemplateResult } from "lit";
import type { DiffLine } from "../core/types.js";

const SIGNS = { same: " ", added: "+", removed: "−" } as const;
const WORDS = { same: "", added: "added: ", removed: "removed: " } as const;

export function diffView(lines: DiffLine[]): TemplateResult {
  return html`<div class="diff mono" role="group" aria-label="Difference">
    ${lines.map(
      (line) => html`<div class=${line.kind}>
        <span aria-hidden="true">${SIGNS[line.kind]}</span>
        <pre><span class="visually-hidden">${WORDS[line.kind]}</span>${line.text}</pre>
      </div>`,
    )}
  </div>`;
}
