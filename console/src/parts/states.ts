/** What a page shows when there is nothing to show: loading, failed, empty. */

import { html, nothing, type TemplateResult } from "lit";
import type { ApiError } from "../core/api.js";
import { icon, type IconName } from "./icons.js";

export function skeleton(lines = 4): TemplateResult {
  return html`<div class="skeleton" role="status" aria-label="Loading">
    ${Array.from({ length: lines }, () => html`<span></span>`)}
  </div>`;
}

export function failure(error: ApiError, retry?: () => void, verb = "Try again"): TemplateResult {
  return html`<div class="notice bad" role="alert">
    ${icon("warning")}
    <div>
      <strong>${error.message}</strong>
      ${error.hint ? html`<p>${error.hint}</p>` : nothing}
      <p class="faint small">${error.code}</p>
    </div>
    ${retry ? html`<button class="button" @click=${retry}>${verb}</button>` : nothing}
  </div>`;
}

export interface EmptyState {
  icon?: IconName;
  title: string;
  text?: unknown;
  action?: unknown;
}

/** An empty place that says what belongs here and how it gets here. */
export function empty(state: EmptyState): TemplateResult {
  return html`<div class="empty">
    ${icon(state.icon ?? "topic")}
    <h3>${state.title}</h3>
    ${state.text ? html`<p>${state.text}</p>` : nothing} ${state.action ?? nothing}
  </div>`;
}

/** A feature that this cluster or this console does not have. */
export function notAvailable(name: IconName, title: string, text: unknown): TemplateResult {
  return html`<div class="card">${empty({ icon: name, title, text })}</div>`;
}
