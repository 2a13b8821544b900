/** A record in full. Keys, values and headers are always shown as text: no record becomes HTML. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { at, withQuery } from "../core/api.js";
import { ago, bytes, time } from "../core/format.js";
import { Part } from "../core/part.js";
import { mayWrite } from "../core/session.js";
import type { Field, Message } from "../core/types.js";
import { badge, button, copyText, facts } from "./bits.js";
import { icon } from "./icons.js";

const PREVIEW_LENGTH = 400;

/** A field in one line, for a table. */
export function fieldLine(field: Field): TemplateResult {
  if (field.type === "null") return html`<span class="faint">null</span>`;
  return html`<span class="mono">${fieldText(field, 0).slice(0, PREVIEW_LENGTH)}</span>`;
}

/** A field as text: JSON with line breaks if an indent is given, bytes in groups. */
export function fieldText(field: Field, indent = 2): string {
  if (field.type === "null") return "";
  if (field.type === "hex") return String(field.value).replace(/(..)/g, "$1 ").trim();
  return typeof field.value === "string" ? field.value : JSON.stringify(field.value, null, indent || undefined);
}

export function showMessage(view: { topic: string; message: Message; neighbour: Neighbour; resend: (message: Message) => void }): void {
  const drawer = document.createElement("o-message") as MessageView;
  Object.assign(drawer, view);
  document.body.append(drawer);
}

/** The record before (-1) or after (+1) another one in the list. */
export type Neighbour = (message: Message, step: number) => Message | undefined;

@customElement("o-message")
export class MessageView extends Part {
  topic = "";
  neighbour: Neighbour = () => undefined;
  resend: (message: Message) => void = () => undefined;
  @state() message!: Message;

  protected override firstUpdated(): void {
    this.querySelector("dialog")!.showModal();
  }

  override render(): TemplateResult {
    const message = this.message;
    return html`<dialog class="drawer" aria-label="Record" @close=${() => this.remove()} @click=${this.onBackdrop} @keydown=${this.onKey}>
      <header>
        <h2>Partition ${message.partition}, offset ${message.offset}</h2>
        ${this.stepButton(-1, "The record above")} ${this.stepButton(1, "The record below")}
        <button type="button" class="icon-button" aria-label="Close" @click=${this.close}>${icon("close")}</button>
      </header>
      <div class="dialog-body">
        ${facts([
          [message.timestamp_type === "append" ? "Appended" : "Created", html`${time(message.timestamp)} <span class="faint">${ago(message.timestamp)}</span>`],
          ["Size", bytes(message.size)],
        ])}
        ${message.masked ? html`<p>${badge("masked", "warn", "Your role sees some fields masked.")}</p>` : nothing}
        ${this.field("Key", message.key)} ${this.field("Value", message.value)}
        ${message.headers.length ? html`<h3>Headers</h3>${facts(message.headers.map((header) => [html`<code>${header.name}</code>`, fieldLine(header.value)]))}` : nothing}
      </div>
      <footer>
        ${button("Copy value", () => void copyText(fieldText(message.value)), { icon: "copy" })}
        <a class="button" download href=${this.downloadAddress()}>${icon("download")}Download value</a>
        ${mayWrite() && !message.masked ? button("Write again…", () => this.writeAgain(), { icon: "send" }) : nothing}
      </footer>
    </dialog>`;
  }

  private field(name: string, field: Field): TemplateResult {
    return html`<h3>
        ${name} ${badge(field.type)}${field.schema_id ? badge(`schema ${field.schema_id}`, "info") : nothing}
        ${field.truncated ? badge("shortened", "warn", "Download the value to see all of it.") : nothing}
      </h3>
      ${field.error ? html`<p class="notice warn">${icon("warning")}<span>${field.error}</span></p>` : nothing}
      ${field.type === "null"
        ? html`<p class="faint">${name === "Value" ? "No value: a tombstone, which deletes the key from a compacted topic." : "No key."}</p>`
        : html`<pre class="content" tabindex="0">${fieldText(field)}</pre>`}`;
  }

  private stepButton(step: number, label: string): TemplateResult {
    const target = this.neighbour(this.message, step);
    return html`<button
      type="button"
      class="icon-button turn"
      aria-label=${label}
      data-tip="${label} (${step < 0 ? "k" : "j"})"
      ?disabled=${!target}
      @click=${() => this.step(step)}
    >
      ${icon(step < 0 ? "left" : "right")}
    </button>`;
  }

  private step(step: number): void {
    this.message = this.neighbour(this.message, step) ?? this.message;
  }

  private downloadAddress(): string {
    const { partition, offset } = this.message;
    return withQuery(`/api${at`/topics/${this.topic}/download`}`, { format: "value", partition, offset });
  }

  private writeAgain(): void {
    this.close();
    this.resend(this.message);
  }

  private onKey(event: KeyboardEvent): void {
    if (event.key === "j") this.step(1);
    if (event.key === "k") this.step(-1);
  }

  private onBackdrop(event: MouseEvent): void {
    if (event.target === this.querySelector("dialog")) this.close();
  }

  private close(): void {
    this.querySelector("dialog")!.close();
  }
}
