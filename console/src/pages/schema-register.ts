/** Registers a schema: the registry checks compatibility and shows the difference before anything is stored. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { ApiError, ask, at, change } from "../core/api.js";
import { Part } from "../core/part.js";
import type { Outcome, SchemaCheck, SubjectDetail } from "../core/types.js";
import { badge, copyable } from "../parts/bits.js";
import { diffView } from "../parts/diff.js";
import { fieldSet, type FormField, type Values } from "../parts/fields.js";
import { icon } from "../parts/icons.js";
import { failure } from "../parts/states.js";
import { toast } from "../parts/toasts.js";

const CHECK_DELAY_MS = 400;

/** Answers the subject when a version was registered. */
export function register(subject: SubjectDetail | null): Promise<string | null> {
  const dialog = document.createElement("o-register") as RegisterDialog;
  dialog.existing = subject;
  document.body.append(dialog);
  return dialog.answer;
}

@customElement("o-register")
export class RegisterDialog extends Part {
  existing: SubjectDetail | null = null;
  readonly answer: Promise<string | null>;
  @state() private values: Values = {};
  @state() private check: SchemaCheck | null = null;
  @state() private trial: Outcome | null = null;
  @state() private error: ApiError | null = null;
  private settle!: (subject: string | null) => void;
  private timer = 0;

  constructor() {
    super();
    this.answer = new Promise((resolve) => (this.settle = resolve));
  }

  override connectedCallback(): void {
    super.connectedCallback();
    const latest = this.existing?.latest;
    this.values = { subject: this.existing?.subject ?? "", type: latest?.type ?? "AVRO", schema: latest ? pretty(latest.schema) : "" };
  }

  protected override firstUpdated(): void {
    this.querySelector("dialog")!.showModal();
    this.querySelector<HTMLElement>(this.existing ? "textarea" : ".fields input")?.focus();
  }

  private get fields(): FormField[] {
    return [
      { name: "subject", label: "Subject", required: true, placeholder: "orders-value", when: () => !this.existing, help: "Usually the topic's name with -value or -key." },
      { name: "type", label: "Language", kind: "select", required: true, options: ["AVRO", "PROTOBUF", "JSON"] },
      { name: "schema", label: "Schema", kind: "textarea", required: true, placeholder: '{"type": "record", "name": "Order", "fields": [...]}' },
    ];
  }

  override render(): TemplateResult {
    return html`<dialog class="dialog wide" aria-labelledby="register-title" @close=${() => this.finish(null)}>
      <form method="dialog" @submit=${this.onSubmit}>
        <header>
          <h2 id="register-title">${this.existing ? `New version of ${this.existing.subject}` : "Register a schema"}</h2>
          <button type="button" class="icon-button" aria-label="Close" @click=${this.close}>${icon("close")}</button>
        </header>
        <div class="dialog-body">
          ${fieldSet(this.fields, this.values, (name, value) => this.set(name, value))} ${this.error ? failure(this.error) : nothing} ${this.verdict()}
        </div>
        <footer>
          <button type="button" class="button" @click=${this.close}>Cancel</button>
          <button class="button primary" ?disabled=${!this.trial || this.check?.is_compatible === false}>Register</button>
        </footer>
      </form>
    </dialog>`;
  }

  private verdict(): unknown {
    if (!this.check) return html`<div class="plan faint">The registry checks the schema while you write.</div>`;
    return html`<section class="plan" aria-live="polite">
      <h3>${this.check.is_compatible ? badge("compatible", "good") : badge("not compatible", "bad")}</h3>
      ${this.check.messages.length ? html`<ul>${this.check.messages.map((message) => html`<li>${message}</li>`)}</ul>` : nothing}
      ${this.check.lines.length ? html`<h3>Against the latest version</h3>${diffView(this.check.lines)}` : nothing}
      ${this.trial
        ? html`<h3>What will happen</h3>
            <ul>${this.trial.plan.map((step) => html`<li>${step}</li>`)}</ul>
            <h3>The same in a terminal</h3>
            ${copyable(this.trial.command)}`
        : nothing}
    </section>`;
  }

  private set(name: string, value: string): void {
    this.values = { ...this.values, [name]: value };
    this.check = this.trial = null;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.tryOut(), CHECK_DELAY_MS);
  }

  /** A new version refers to the same schemas as the latest one. */
  private body(): Record<string, unknown> {
    return { schema: this.values.schema, type: this.values.type, references: this.existing?.latest?.references ?? [] };
  }

  private async tryOut(): Promise<void> {
    const { subject, schema } = this.values;
    this.error = null;
    if (!subject || !schema) return;
    try {
      const check = await ask<SchemaCheck>(at`/schemas/${subject}/check`, this.body());
      const trial = await change("POST", at`/schemas/${subject}`, { ...this.body(), dry_run: true });
      if (schema === this.values.schema) [this.check, this.trial] = [check, trial];
    } catch (error) {
      this.error = error as ApiError;
    }
  }

  private async onSubmit(event: Event): Promise<void> {
    event.preventDefault();
    const { subject } = this.values;
    try {
      await change("POST", at`/schemas/${subject!}`, this.body());
      toast("The schema is registered.");
      this.finish(subject!);
    } catch (error) {
      this.error = error as ApiError;
    }
  }

  private close(): void {
    this.querySelector("dialog")!.close();
  }

  private finish(subject: string | null): void {
    this.settle(subject);
    this.remove();
  }
}

/** JSON with line breaks; another language as it is. */
export function pretty(schema: string): string {
  try {
    return JSON.stringify(JSON.parse(schema), null, 2);
  } catch {
    return schema;
  }
}
