/** The doctor's findings, each with the command or the button that fixes it. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { get } from "../core/api.js";
import { Part } from "../core/part.js";
import { Resource } from "../core/resource.js";
import { mayWrite } from "../core/session.js";
import type { Finding } from "../core/types.js";
import { badge, button, copyable, pageHead } from "../parts/bits.js";
import { propose } from "../parts/change.js";
import { empty } from "../parts/states.js";

const TONES = { critical: "bad", warning: "warn", info: "info" } as const;
const ORDER = ["critical", "warning", "info"];

@customElement("page-doctor")
export class DoctorPage extends Part {
  private findings = new Resource<{ findings: Finding[] }>(this, (signal) => get("/doctor", {}, signal));

  override render(): TemplateResult {
    return html`${pageHead({
      title: "Doctor",
      lead: "Faults and risks of the cluster, and what repairs each.",
      actions: button("Examine again", () => void this.findings.reload(), { icon: "refresh" }),
    })}
    ${this.findings.render(({ findings }) =>
      findings.length
        ? html`<ul class="plain diagnoses">
            ${[...findings].sort(bySeverity).map((finding) => this.show(finding))}
          </ul>`
        : html`<div class="card">${empty({ icon: "check", title: "No fault found", text: "The cluster is healthy, and no setting is known to be risky." })}</div>`,
    )}`;
  }

  private show(finding: Finding): TemplateResult {
    return html`<li class="card diagnosis ${TONES[finding.severity]}">
      <header class="card-head">
        <h2>${badge(finding.severity, TONES[finding.severity])} ${finding.title}</h2>
        <div class="actions">
          ${finding.fix && mayWrite() ? this.fixButton(finding) : nothing}
        </div>
      </header>
      ${finding.detail ? html`<p class="soft">${adviceOf(finding)}</p>` : nothing} ${finding.command ? copyable(finding.command) : nothing}
    </li>`;
  }

  /** A fix that removes something says so: it is the last resort. */
  private fixButton(finding: Finding): TemplateResult {
    const isRemoval = finding.fix!.method === "DELETE";
    const label = !isRemoval ? "Fix…" : finding.fix!.path.startsWith("/api/brokers/") ? "Unregister…" : "Delete…";
    return button(label, () => void this.fix(finding), { tone: isRemoval ? "danger" : "primary" });
  }

  private async fix(finding: Finding): Promise<void> {
    const { method, path, body } = finding.fix!;
    const outcome = await propose({
      title: method === "DELETE" ? "Remove" : "Fix",
      lead: finding.title,
      method,
      path: path.replace(/^\/api/, ""),
      body: () => body,
      verb: method === "DELETE" ? "Remove it" : "Fix it",
      done: "Done. The cluster is examined again.",
    });
    if (outcome) await this.findings.reload();
  }
}

/** The advice as a sentence, without the command that is shown below it. */
function adviceOf({ detail, command }: Finding): string {
  const words = command && detail.endsWith(command) ? detail.slice(0, -command.length).trim() : detail;
  const sentence = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.:!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

function bySeverity(left: Finding, right: Finding): number {
  return ORDER.indexOf(left.severity) - ORDER.indexOf(right.severity);
}
