/** A table over a paged list: virtual scrolling, sorting and filtering by the source, rows by arrow keys. */

import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { ifDefined } from "lit/directives/if-defined.js";
import type { Query } from "../core/api.js";
import { count } from "../core/format.js";
import { Part } from "../core/part.js";
import { navigate, rememberInAddress } from "../core/router.js";
import { icon } from "./icons.js";
import { PagedRows, type Source } from "./rows.js";
import { empty, failure, type EmptyState } from "./states.js";

const ROW_HEIGHT = 40;
const ROWS_AROUND = 6;
const FILTER_DELAY_MS = 150;

export interface Column<Row> {
  key: string;
  label: string;
  tip?: string;
  cell?: (row: Row) => unknown;
  /** Numbers stand at the right edge. */
  number?: boolean;
  sortable?: boolean;
  /** A CSS width; columns without one share the rest. */
  width?: string;
  /** The width in a window narrower than 640 px; "" is for a share of the rest. */
  narrow?: string;
  /** The column is left out in a window narrower than "narrow" (640 px) or "middle" (1000 px). */
  hide?: "narrow" | "middle";
}

@customElement("o-table")
export class Table<Row> extends Part {
  @property({ attribute: false }) columns: Column<Row>[] = [];
  @property({ attribute: false }) source!: Source<Row>;
  @property({ attribute: false }) query: Query = {};
  @property({ attribute: false }) href?: (row: Row) => string | null;
  @property({ attribute: false }) open?: (row: Row) => void;
  @property({ attribute: false }) tools: unknown = nothing;
  @property({ attribute: false }) whenEmpty: EmptyState = { title: "Nothing here" };
  @property() label = "";
  @property() sort = "";
  @property() placeholder = "Filter";
  @property({ type: Boolean }) filterable = false;
  /** The filter and the order are kept in the address of the page. */
  @property({ type: Boolean }) addressed = false;
  @property({ type: Boolean }) short = false;
  /** The list is read again every so many seconds, for lists that change by themselves; 0: never. */
  @property({ type: Number }) refresh = 0;
  @state() private filter = "";
  @state() private first = 0;
  @state() private visible = 20;
  @state() private active = 0;
  private rows: PagedRows<Row> | undefined;
  private shownRows: PagedRows<Row> | undefined;
  private filterTimer = 0;
  private refreshTimer = 0;
  private observer = new ResizeObserver(() => this.measure());
  private narrow = window.matchMedia("(width < 640px)");
  private onWidth = () => this.requestUpdate();

  override connectedCallback(): void {
    super.connectedCallback();
    if (this.addressed) {
      const query = new URLSearchParams(location.search);
      this.filter = query.get("filter") ?? "";
      this.sort = query.get("sort") ?? this.sort;
    }
    this.narrow.addEventListener("change", this.onWidth);
    if (this.refresh) this.refreshTimer = window.setInterval(() => this.onRefresh(), this.refresh * 1000);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    window.clearInterval(this.refreshTimer);
    this.narrow.removeEventListener("change", this.onWidth);
    this.observer.disconnect();
    this.rows?.stop();
  }

  /** Reads the list again. The rows on the screen stay until the new ones are there. */
  reload(): void {
    this.rows?.stop();
    const rows = new PagedRows<Row>(this.source, { ...this.query, filter: this.filter, sort: this.sort }, () => {
      if (this.rows === rows && !rows.error) this.shownRows = rows;
      this.requestUpdate();
    });
    this.rows = rows;
    rows.want(this.first, this.first + this.visible);
    this.requestUpdate();
  }

  private onRefresh(): void {
    // An answer that takes longer than the period is waited for: asking again would never show it.
    if (!document.hidden && !this.rows?.isLoading) this.reload();
  }

  protected override willUpdate(changed: PropertyValues): void {
    if (changed.has("source") || changed.has("query") || changed.has("sort") || changed.has("filter")) this.reload();
  }

  protected override firstUpdated(): void {
    this.observer.observe(this.scroller);
  }

  private get scroller(): HTMLElement {
    return this.querySelector<HTMLElement>(".rows")!;
  }

  private get total(): number {
    return this.shownRows?.total ?? 0;
  }

  override render(): TemplateResult {
    const failed = this.rows?.error;
    return html`
      ${this.filterable || this.tools !== nothing ? this.toolbar() : nothing}
      ${failed ? failure(failed, () => this.reload()) : nothing}
      <div class="rows ${this.short ? "short" : ""}" @scroll=${() => this.measure()} tabindex="-1">
        <table role="grid" aria-label=${this.label} aria-rowcount=${this.total + 1}>
          <colgroup>
            ${this.columns.map((column) => html`<col class=${hidden(column)} width=${ifDefined(this.widthOf(column))} />`)}
          </colgroup>
          <thead>
            <tr>
              ${this.columns.map((column) => this.heading(column))}
            </tr>
          </thead>
          <tbody @keydown=${this.onKey}>
            ${this.body()}
          </tbody>
        </table>
        ${this.shownRows && this.total === 0 && !failed ? this.nothingFound() : nothing}
      </div>
    `;
  }

  private toolbar(): TemplateResult {
    return html`<div class="toolbar">
      ${this.filterable
        ? html`<label class="filter">
            ${icon("search")}
            <input
              type="search"
              aria-label=${this.placeholder}
              placeholder=${this.placeholder}
              .value=${this.filter}
              @input=${this.onFilter}
            />
          </label>`
        : nothing}
      ${this.tools}
      <span class="faint small total">${this.shownRows ? count(this.total) : "…"}</span>
    </div>`;
  }

  private widthOf(column: Column<Row>): string | undefined {
    return (this.narrow.matches ? (column.narrow ?? column.width) : column.width) || undefined;
  }

  private heading(column: Column<Row>): TemplateResult {
    const key = this.sort.replace(/^-/, "");
    const order = key !== column.key ? "none" : this.sort.startsWith("-") ? "descending" : "ascending";
    const name = html`<span data-tip=${ifDefined(column.tip)} class=${column.tip ? "term" : ""}>${column.label}</span>`;
    return html`<th scope="col" class="${hidden(column)} ${column.number ? "number" : ""}" aria-sort=${order}>
      ${column.sortable ? html`<button type="button" @click=${() => this.sortBy(column)}>${name}</button>` : name}
    </th>`;
  }

  private body(): unknown {
    const last = Math.min(this.total, this.first + this.visible);
    const spacer = (rows: number) =>
      rows > 0 ? html`<tr class="spacer" aria-hidden="true"><td .height=${String(rows * ROW_HEIGHT)}></td></tr>` : nothing;
    const indexes = Array.from({ length: Math.max(0, last - this.first) }, (_, step) => this.first + step);
    return html`${spacer(this.first)}${indexes.map((index) => this.row(index))}${spacer(this.total - last)}`;
  }

  private row(index: number): TemplateResult {
    const row = this.shownRows?.at(index);
    if (row === undefined) {
      return html`<tr class="waiting"><td colspan=${this.columns.length}><span></span></td></tr>`;
    }
    const opens = this.href || this.open;
    return html`<tr
      class=${opens ? "opens" : ""}
      tabindex=${index === this.active ? 0 : -1}
      aria-rowindex=${index + 2}
      data-index=${index}
      @click=${(event: MouseEvent) => this.onClick(event, row)}
      @focus=${() => (this.active = index)}
    >
      ${this.columns.map((column) => this.cell(column, row))}
    </tr>`;
  }

  private cell(column: Column<Row>, row: Row): TemplateResult {
    const content = column.cell ? column.cell(row) : (row as Record<string, unknown>)[column.key];
    const address = column === this.columns[0] ? this.href?.(row) : null;
    return html`<td class="${hidden(column)} ${column.number ? "number" : ""}">
      ${address ? html`<a href=${address} tabindex="-1">${content}</a>` : content}
    </td>`;
  }

  private nothingFound(): TemplateResult {
    if (!this.filter) return empty(this.whenEmpty);
    return empty({
      icon: "search",
      title: `Nothing matches “${this.filter}”`,
      action: html`<button class="button" @click=${() => this.setFilter("")}>Clear the filter</button>`,
    });
  }

  private measure(): void {
    const { scrollTop, clientHeight } = this.scroller;
    this.first = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - ROWS_AROUND);
    this.visible = Math.ceil(clientHeight / ROW_HEIGHT) + 2 * ROWS_AROUND;
    this.rows?.want(this.first, Math.min(this.first + this.visible, Math.max(0, this.total - 1)));
  }

  private onFilter(event: Event): void {
    const text = (event.target as HTMLInputElement).value;
    window.clearTimeout(this.filterTimer);
    this.filterTimer = window.setTimeout(() => this.setFilter(text), FILTER_DELAY_MS);
  }

  private setFilter(text: string): void {
    this.filter = text;
    this.active = 0;
    this.scroller.scrollTop = 0;
    if (this.addressed) rememberInAddress({ filter: text });
  }

  private sortBy(column: Column<Row>): void {
    // Numbers begin with the largest: that is what people look for.
    const [once, again] = column.number ? [`-${column.key}`, column.key] : [column.key, `-${column.key}`];
    this.sort = this.sort === once ? again : once;
    this.scroller.scrollTop = 0;
    if (this.addressed) rememberInAddress({ sort: this.sort });
  }

  private onClick(event: MouseEvent, row: Row): void {
    if ((event.target as Element).closest("a, button, input, select")) return;
    if (String(getSelection() ?? "")) return;
    this.enter(row);
  }

  private enter(row: Row): void {
    const address = this.href?.(row);
    if (address) navigate(address);
    else this.open?.(row);
  }

  private onKey(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_HEIGHT) - 2);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    const isOnRow = (event.target as Element).matches("tr");
    if (step !== undefined && isOnRow) {
      event.preventDefault();
      void this.focusRow(Math.max(0, Math.min(this.total - 1, this.active + step)));
    } else if (event.key === "Enter" && isOnRow) {
      const row = this.shownRows?.at(this.active);
      if (row !== undefined) this.enter(row);
    }
  }

  private async focusRow(index: number): Promise<void> {
    this.active = index;
    const headHeight = this.scroller.querySelector("thead")!.clientHeight;
    const top = index * ROW_HEIGHT;
    const room = this.scroller.clientHeight - headHeight - ROW_HEIGHT;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
    this.measure();
    await this.updateComplete;
    this.scroller.querySelector<HTMLElement>(`tr[data-index="${index}"]`)?.focus({ preventScroll: true });
  }
}

function hidden<Row>(column: Column<Row>): string {
  return column.hide ? `hide-${column.hide}` : "";
}

declare global {
  interface HTMLElementTagNameMap {
    "o-table": Table<unknown>;
  }
}
