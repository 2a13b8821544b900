/** Fields of a form, described as data. */

import { html, nothing, type TemplateResult } from "lit";

export interface FormField {
  name: string;
  label: string;
  help?: unknown;
  kind?: "text" | "number" | "password" | "select" | "textarea" | "checkbox" | "datetime-local";
  options?: (string | { value: string; label: string })[];
  placeholder?: string;
  required?: boolean;
  value?: string;
  /** Numbers are whole if it is not given. */
  step?: string;
  /** The field is shown only while this holds. */
  when?: (values: Values) => boolean;
}

export type Values = Record<string, string>;

export function initialValues(fields: readonly FormField[]): Values {
  return Object.fromEntries(fields.map((field) => [field.name, field.value ?? firstOption(field)]));
}

function firstOption(field: FormField): string {
  const option = field.kind === "select" ? field.options?.[0] : undefined;
  return option === undefined ? "" : typeof option === "string" ? option : option.value;
}

export function isComplete(fields: readonly FormField[], values: Values): boolean {
  return fields.every((field) => !field.required || !isShown(field, values) || values[field.name]);
}

export function isShown(field: FormField, values: Values): boolean {
  return field.when ? field.when(values) : true;
}

export function fieldSet(fields: readonly FormField[], values: Values, set: (name: string, value: string) => void) {
  return html`<div class="fields">
    ${fields.filter((field) => isShown(field, values)).map((field) => row(field, values, set))}
  </div>`;
}

function row(field: FormField, values: Values, set: (name: string, value: string) => void): TemplateResult {
  const id = `field-${field.name}`;
  if (field.kind === "checkbox") {
    return html`<label class="check">
      <input
        type="checkbox"
        name=${field.name}
        .checked=${values[field.name] === "true"}
        @change=${(event: Event) => set(field.name, String((event.target as HTMLInputElement).checked))}
      />
      <span>${field.label}${field.help ? html`<small>${field.help}</small>` : nothing}</span>
    </label>`;
  }
  return html`<div class="field ${field.kind === "textarea" ? "whole" : ""}">
    <label for=${id}>${field.label}${field.required ? nothing : html`<i>optional</i>`}</label>
    ${control(field, id, values[field.name] ?? "", set)} ${field.help ? html`<small>${field.help}</small>` : nothing}
  </div>`;
}

function control(field: FormField, id: string, value: string, set: (name: string, value: string) => void) {
  const changed = (event: Event) => set(field.name, (event.target as HTMLInputElement).value);
  if (field.kind === "select") {
    return html`<select id=${id} name=${field.name} @change=${changed}>
      ${(field.options ?? []).map((option) => {
        const { value: own, label } = typeof option === "string" ? { value: option, label: option } : option;
        return html`<option value=${own} ?selected=${own === value}>${label}</option>`;
      })}
    </select>`;
  }
  if (field.kind === "textarea") {
    return html`<textarea
      id=${id}
      name=${field.name}
      spellcheck="false"
      placeholder=${field.placeholder ?? ""}
      .value=${value}
      @input=${changed}
    ></textarea>`;
  }
  return html`<input
    id=${id}
    name=${field.name}
    type=${field.kind ?? "text"}
    autocomplete=${field.kind === "password" ? "new-password" : "off"}
    spellcheck="false"
    step=${field.step ?? (field.kind === "datetime-local" ? "1" : nothing)}
    placeholder=${field.placeholder ?? ""}
    .value=${value}
    @input=${changed}
  />`;
}

/** "a=b" lines as an object; lines without "=" are left out. */
export function parsePairs(text: string): Record<string, string> {
  const pairs = text.split("\n").filter((line) => line.includes("="));
  return Object.fromEntries(pairs.map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()]));
}

/** "orders, clicks" as a list. */
export function parseList(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}
