/** The audit: who did or tried what, newest first. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { ApiError, get } from "../core/api.js";
import { plural, time } from "../core/format.js";
import { Part } from "../core/part.js";
import { rememberInAddress } from "../core/router.js";
import { hasFeature } from "../core/session.js";
import type { AuditEntry } from "../core/types.js";
import { badge, copyable, pageHead } from "../parts/bits.js";
import { localRows } from "../parts/rows.js";
import { failure, notAvailable } from "../parts/states.js";
import "../parts/table.js";
import type { Column } from "../parts/table.js";

const ENTRIES_MAX = 500;
const PERIODS: [string, string][] = [
  ["3600000", "last hour"],
  ["86400000", "last day"],
  ["604800000", "last week"],
  ["", "any time"],
];

@customElement("page-audit")
export class AuditPage extends Part {
  @state() private wanted: Record<string, string> = wantedFromAddress();
  @state() private rows = localRows<AuditEntry>([]);
  @state() private status = "";
  @state() private error: ApiError | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    if (hasFeature("audit")) void this.search();
  }

  override render(): TemplateResult {
    return html`${pageHead({ title: "Audit", lead: "Logins, and decisions about what clients asked for." })} ${hasFeature("audit") ? this.page() : missing()}`;
  }

  private page(): TemplateResult {
    return html`<form class="query" @submit=${this.onSubmit}>
        <div class="query-row">
          ${this.input("principal", "Principal", "User:alice")} ${this.input("operation", "Operation", "Write")}
          ${this.input("resource", "Resource", "orders")}
          <select name="period" aria-label="Period" @change=${this.onInput}>
            ${PERIODS.map(([value, label]) => html`<option value=${value} ?selected=${value === this.wanted.period}>${label}</option>`)}
          </select>
          <label class="check"><input type="checkbox" name="denied" .checked=${this.wanted.denied === "true"} @change=${this.onInput} /><span>Denied only</span></label>
          <button class="button primary">Search</button>
        </div>
      </form>
      <div class="query-status" role="status">${this.status}</div>
      ${this.error ? failure(this.error, () => void this.search()) : nothing}
      <o-table
        class="fill"
        label="Audit"
        .columns=${COLUMNS}
        .source=${this.rows}
        .whenEmpty=${{ icon: "audit", title: "Nothing matches", text: "Choose a longer period, or fewer conditions." }}
      ></o-table>`;
  }

  private input(name: string, label: string, placeholder: string): TemplateResult {
    return html`<input type="text" name=${name} aria-label=${label} placeholder="${label}, such as ${placeholder}" .value=${this.wanted[name] ?? ""} @input=${this.onInput} />`;
  }

  private onInput(event: Event): void {
    const field = event.target as HTMLInputElement;
    const value = field.type === "checkbox" ? (field.checked ? "true" : "") : field.value;
    this.wanted = { ...this.wanted, [field.name]: value };
  }

  private onSubmit(event: Event): void {
    event.preventDefault();
    rememberInAddress(this.wanted);
    void this.search();
  }

  private async search(): Promise<void> {
    this.error = null;
    this.status = "Reading…";
    const { period, ...conditions } = this.wanted;
    const since = period ? Date.now() - Number(period) : 0;
    try {
      const answer = await get<{ items: AuditEntry[]; total: number; is_complete: boolean }>("/audit", { ...conditions, since, limit: ENTRIES_MAX });
      this.rows = localRows(answer.items);
      this.status = `${plural(answer.items.length, "entry", "entries")}${answer.is_complete && answer.total <= answer.items.length ? "" : ", and there are more"}`;
    } catch (error) {
      this.error = error as ApiError;
      this.status = "";
    }
  }
}

function wantedFromAddress(): Record<string, string> {
  return { period: "86400000", ...Object.fromEntries(new URLSearchParams(location.search)) };
}

function missing(): TemplateResult {
  return notAvailable(
    "audit",
    "There is no audit",
    html`Nothing was audited so far, or this cluster keeps no audit. It is a setting of every node of Ottla:
      ${copyable("ottla.audit.topic=true")}`,
  );
}

const COLUMNS: Column<AuditEntry>[] = [
  { key: "time", label: "Time", width: "196", hide: "narrow", cell: (entry) => time(entry.time) },
  { key: "principal", label: "Principal", width: "136", narrow: "112", cell: (entry) => (entry.principal ? html`<b data-tip=${entry.principal}>${entry.principal.replace(/^User:/, "")}</b>` : html`<span class="faint">nobody</span>`) },
  { key: "allowed", label: "", width: "92", cell: (entry) => badge(entry.allowed ? "allowed" : "denied", entry.allowed ? "good" : "bad", entry.reason ?? undefined) },
  { key: "operation", label: "Operation", width: "110", hide: "narrow", cell: (entry) => entry.operation },
  { key: "resource", label: "Resource", cell: (entry) => (entry.resource ? html`<span class="mono small" data-tip=${entry.resource}>${entry.resource}</span>` : html`<span class="faint">–</span>`) },
  { key: "host", label: "Host", width: "104", hide: "middle" },
  { key: "api", label: "Request", width: "142", hide: "middle" },
];
