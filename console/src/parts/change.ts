/** Every change asks first: it shows the server's plan and the equivalent command before it is applied. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { ApiError, change, type Method } from "../core/api.js";
import { Part } from "../core/part.js";
import type { Outcome } from "../core/types.js";
import { copyable } from "./bits.js";
import { fieldSet, initialValues, isComplete, type FormField, type Values } from "./fields.js";
import { icon } from "./icons.js";
import { failure } from "./states.js";
import { toast } from "./toasts.js";

const TRIAL_DELAY_MS = 250;

export interface Change {
  title: string;
  /** What the change is for, in a sentence. */
  lead?: unknown;
  method: Method;
  path: string | ((values: Values) => string);
  fields?: FormField[];
  body?: (values: Values) => object;
  /** The label of the button that applies it. */
  verb: string;
  danger?: boolean;
  /** Text that has to be typed before something is destroyed. */
  typed?: string;
  /** A picture of what will happen, beside the plan. */
  picture?: (outcome: Outcome) => unknown;
  done?: string;
  /** Only explains: the person may not change this. */
  readOnly?: boolean;
}

/** Asks, and applies the change if the person agrees. Answers null if not. */
export function propose(proposed: Change): Promise<Outcome | null> {
  const dialog = document.createElement("o-change") as ChangeDialog;
  dialog.proposed = proposed;
  document.body.append(dialog);
  return dialog.answer;
}

@customElement("o-change")
export class ChangeDialog extends Part {
  proposed!: Change;
  readonly answer: Promise<Outcome | null>;
  @state() private values: Values = {};
  @state() private trial: Outcome | null = null;
  @state() private error: ApiError | null = null;
  @state() private isWorking = false;
  @state() private typed = "";
  private settle!: (outcome: Outcome | null) => void;
  private timer = 0;
  private attempt = 0;

  constructor() {
    super();
    this.answer = new Promise((resolve) => (this.settle = resolve));
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.values = initialValues(this.fields);
    void this.tryOut();
  }

  protected override firstUpdated(): void {
    this.querySelector("dialog")!.showModal();
    // The first field, or the safe button: never the cross in the corner.
    this.querySelector<HTMLElement>(".fields input, .fields select, .fields textarea, #change-typed, footer button")?.focus();
  }

  private get fields(): FormField[] {
    return this.proposed.fields ?? [];
  }

  override render(): TemplateResult {
    const { title, lead, verb, danger, typed } = this.proposed;
    const isConfirmed = !typed || this.typed === typed;
    return html`<dialog class="dialog" aria-labelledby="change-title" @close=${() => this.finish(null)}>
      <form method="dialog" @submit=${this.onSubmit}>
        <header>
          <h2 id="change-title">${title}</h2>
          <button type="button" class="icon-button" aria-label="Close" @click=${this.close}>${icon("close")}</button>
        </header>
        <div class="dialog-body">
          ${lead ? html`<p class="soft">${lead}</p>` : nothing}
          ${this.fields.length ? fieldSet(this.fields, this.values, (name, value) => this.set(name, value)) : nothing}
          ${this.proposed.readOnly ? nothing : this.preview()} ${typed ? this.typeField(typed) : nothing}
        </div>
        <footer>
          <button type="button" class="button" @click=${this.close}>${this.proposed.readOnly ? "Close" : "Cancel"}</button>
          ${this.proposed.readOnly
            ? nothing
            : html`<button class="button ${danger ? "danger" : "primary"}" ?disabled=${!this.trial || this.isWorking || !isConfirmed}>
                ${this.isWorking ? "Working…" : verb}
              </button>`}
        </footer>
      </form>
    </dialog>`;
  }

  private preview(): TemplateResult {
    if (this.error?.code === "NOTHING_TO_DO") return html`<p class="notice good" role="status">${icon("check")}<span>${this.error.message}</span></p>`;
    if (this.error) return failure(this.error, () => void this.tryOut());
    if (!this.trial) {
      const text = isComplete(this.fields, this.values) ? "Asking the cluster…" : "The plan appears here when the fields are filled in.";
      return html`<div class="plan faint" role="status">${text}</div>`;
    }
    const { plan, command, warnings } = this.trial;
    return html`<section class="plan" aria-live="polite">
      <h3>What will happen</h3>
      ${this.proposed.picture?.(this.trial) ?? nothing}
      <ul>
        ${plan.map((step) => html`<li>${step}</li>`)}
      </ul>
      ${(warnings ?? []).map((warning) => html`<div class="notice warn">${icon("warning")}<div>${warning}</div></div>`)}
      ${command
        ? html`<h3>The same in a terminal</h3>
            ${copyable(command)}`
        : nothing}
    </section>`;
  }

  private typeField(typed: string): TemplateResult {
    return html`<div class="field whole">
      <label for="change-typed">Type <b class="mono">${typed}</b> to confirm</label>
      <input
        id="change-typed"
        type="text"
        autocomplete="off"
        .value=${this.typed}
        @input=${(event: Event) => (this.typed = (event.target as HTMLInputElement).value)}
      />
    </div>`;
  }

  private set(name: string, value: string): void {
    this.values = { ...this.values, [name]: value };
    this.trial = null;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.tryOut(), TRIAL_DELAY_MS);
  }

  private async tryOut(): Promise<void> {
    const attempt = ++this.attempt;
    this.error = null;
    if (this.proposed.readOnly || !isComplete(this.fields, this.values)) return;
    try {
      const outcome = await this.call(true);
      if (attempt === this.attempt) this.trial = outcome;
    } catch (error) {
      if (attempt === this.attempt) this.error = asApiError(error);
    }
  }

  private call(isTrial: boolean): Promise<Outcome> {
    const { method, path, body } = this.proposed;
    const target = typeof path === "string" ? path : path(this.values);
    return change(method, target, { ...(body?.(this.values) ?? {}), ...(isTrial ? { dry_run: true } : {}) });
  }

  private async onSubmit(event: Event): Promise<void> {
    event.preventDefault();
    this.isWorking = true;
    this.error = null;
    try {
      const outcome = await this.call(false);
      toast(this.proposed.done ?? `Done: ${this.proposed.title}.`);
      this.finish(outcome);
    } catch (error) {
      this.error = asApiError(error);
      this.trial = null;
    } finally {
      this.isWorking = false;
    }
  }

  private close(): void {
    this.querySelector("dialog")!.close();
  }

  private finish(outcome: Outcome | null): void {
    window.clearTimeout(this.timer);
    this.settle(outcome);
    this.remove();
  }
}

function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, "ERROR", String(error));
}
