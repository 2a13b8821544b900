/** Small pieces of a page: headings, badges, figures, explained words, copyable commands. */

import { html, nothing, type TemplateResult } from "lit";
import { GLOSSARY, type Term } from "./glossary.js";
import { icon, type IconName } from "./icons.js";
import { toast } from "./toasts.js";

export type Tone = "good" | "warn" | "bad" | "info" | "plain";

export function badge(text: unknown, tone: Tone = "plain", tip?: string): TemplateResult {
  return html`<span class="badge ${tone}" data-tip=${tip ?? nothing} tabindex=${tip ? 0 : nothing}>${text}</span>`;
}

/** A word of Kafka with its explanation, shown on hover and on focus. */
export function term(name: Term, text?: string): TemplateResult {
  return html`<span class="term" tabindex="0" data-tip=${GLOSSARY[name]}>${text ?? name}</span>`;
}

export interface PageHead {
  title: unknown;
  lead?: unknown;
  badges?: unknown;
  actions?: unknown;
  back?: { href: string; label: string };
}

export function pageHead(head: PageHead): TemplateResult {
  return html`<header class="page-head">
    <div>
      ${head.back ? html`<a class="back" href=${head.back.href}>${icon("left")}${head.back.label}</a>` : nothing}
      <h1 class="break">${head.title} ${head.badges ?? nothing}</h1>
      ${head.lead ? html`<p class="soft">${head.lead}</p>` : nothing}
    </div>
    <div class="actions">${head.actions ?? nothing}</div>
  </header>`;
}

export function card(title: unknown, body: unknown, more: { actions?: unknown; lead?: unknown } = {}): TemplateResult {
  return html`<section class="card">
    <header class="card-head">
      <div>
        <h2>${title}</h2>
        ${more.lead ? html`<p class="soft small">${more.lead}</p>` : nothing}
      </div>
      <div class="actions">${more.actions ?? nothing}</div>
    </header>
    ${body}
  </section>`;
}

export function figure(label: unknown, value: unknown, more: { note?: unknown; tone?: Tone; href?: string } = {}) {
  const body = html`<dt>${label}</dt>
    <dd class=${more.tone ?? "plain"}>${value}</dd>
    <dd class="note">${more.note ?? nothing}</dd>`;
  return more.href
    ? html`<a class="figure" href=${more.href}><dl>${body}</dl></a>`
    : html`<div class="figure"><dl>${body}</dl></div>`;
}

export function facts(pairs: [unknown, unknown][]): TemplateResult {
  return html`<dl class="facts">${pairs.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

export interface ButtonOptions {
  icon?: IconName;
  tone?: "primary" | "danger" | "quiet";
  disabled?: boolean;
  tip?: string;
}

export function button(label: string, action: (event: Event) => void, options: ButtonOptions = {}): TemplateResult {
  return html`<button
    type="button"
    class="button ${options.tone ?? ""}"
    ?disabled=${options.disabled ?? false}
    data-tip=${options.tip ?? nothing}
    @click=${action}
  >
    ${options.icon ? icon(options.icon) : nothing}${label}
  </button>`;
}

export function iconButton(name: IconName, label: string, action: (event: Event) => void): TemplateResult {
  return html`<button type="button" class="icon-button" aria-label=${label} data-tip=${label} @click=${action}>
    ${icon(name)}
  </button>`;
}

/** Text to run or keep, with a button that copies it. */
export function copyable(text: string): TemplateResult {
  return html`<div class="copyable">
    <code>${text}</code>
    ${iconButton("copy", "Copy", () => void copyText(text))}
  </div>`;
}

export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    toast("The browser does not allow copying here.", "bad");
  }
}

export function meter(share: number, tone: Tone = "plain"): TemplateResult {
  return html`<progress class="meter ${tone}" max="1" .value=${Math.min(1, Math.max(0, share))}></progress>`;
}
