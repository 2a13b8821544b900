/** The message browser: seek, filter, search with progress, live tail, write, download. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { ApiError, ask, at, errorOf, get, withQuery } from "../core/api.js";
import { count, plural, time } from "../core/format.js";
import { Part } from "../core/part.js";
import { Ring } from "../core/ring.js";
import { rememberInAddress } from "../core/router.js";
import { mayWrite } from "../core/session.js";
import { readLines } from "../core/streams.js";
import type { Message, Messages } from "../core/types.js";
import { button } from "../parts/bits.js";
import { propose } from "../parts/change.js";
import { icon } from "../parts/icons.js";
import { fieldLine, fieldText, showMessage } from "../parts/message-view.js";
import { localRows } from "../parts/rows.js";
import { failure } from "../parts/states.js";
import "../parts/table.js";
import type { Column } from "../parts/table.js";
import { DECODERS, forAddress, forApi, forTail, fromAddress, STARTS, type MessageQuery } from "./message-query.js";
import { production } from "./topic-changes.js";

/** Records kept in the browser. A tail may run for days: older records are dropped. */
const RECORDS_KEPT = 500;
const FILTER_CHECK_DELAY_MS = 250;

type Activity = "idle" | "reading" | "searching" | "tailing";

type SearchLine = {
  progress?: { scanned: number; total: number; matched: number };
  message?: Message;
  done?: { scanned: number; matched: number; reason: string };
  error?: { code: string; message: string; hint: string | null };
};

@customElement("o-messages")
export class MessageBrowser extends Part {
  @property() topic = "";
  @property({ type: Number }) partitions = 1;
  @state() private query: MessageQuery = fromAddress();
  @state() private activity: Activity = "idle";
  @state() private error: ApiError | null = null;
  /** The error ended a tail, which can go on. */
  @state() private isTailOver = false;
  /** Why a tail shows nothing new at the moment. */
  @state() private trouble = "";
  @state() private interruptions = 0;
  @state() private filterError = "";
  @state() private status = "";
  @state() private progress: { scanned: number; total: number; matched: number } | null = null;
  @state() private dropped = 0;
  @state() private rows = localRows<Message>([]);
  private next: Record<string, number> | null = null;
  private records = new Ring<Message>(RECORDS_KEPT);
  private work: AbortController | undefined;
  private stream: EventSource | undefined;
  private filterTimer = 0;

  override connectedCallback(): void {
    super.connectedCallback();
    void this.updateComplete.then(() => this.read());
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.stop();
  }

  override render(): TemplateResult {
    return html`
      <form class="query" @submit=${this.onSubmit}>${this.startFields()}${this.filterFields()}</form>
      <div class="query-status" role="status">${this.statusLine()}</div>
      ${this.error ? this.showError(this.error) : nothing}
      <o-table
        class="fill messages"
        label="Records of ${this.topic}"
        .columns=${COLUMNS}
        .source=${this.rows}
        .open=${(message: Message) => this.show(message)}
        .whenEmpty=${this.whenEmpty()}
      ></o-table>
    `;
  }

  private showError(error: ApiError): TemplateResult {
    return this.isTailOver ? failure(error, () => this.tail({ goesOn: true }), "Go on live") : failure(error, () => void this.read());
  }

  private startFields(): TemplateResult {
    const { from } = this.query;
    return html`<div class="query-row">
      ${this.select("from", "Start", STARTS)}
      ${from === "offset" ? this.input("offset", "Offset", "number", "0") : nothing}
      ${from === "timestamp" ? this.input("time", "Time", "datetime-local", "") : nothing}
      ${from === "key" ? this.input("key", "Key", "text", "the whole key") : nothing}
      ${this.select("partition", "Partition", [
        ["", "All partitions"],
        ...Array.from({ length: Math.min(this.partitions, 1000) }, (_, id): [string, string] => [String(id), `Partition ${id}`]),
      ])}
      ${this.select("decode", "Decoding", DECODERS)}
      <button class="button primary" ?disabled=${this.activity === "reading"}>Read</button>
      <span class="gap"></span>
      ${this.activity === "tailing"
        ? button("Stop", () => this.stop(), { icon: "stop" })
        : button("Live", () => this.tail(), { icon: "play", tip: "Shows records as they are written" })}
      <a class="button" download href=${this.downloadAddress()} data-tip="These records as JSON lines">${icon("download")}Download</a>
      ${mayWrite() ? button("Write…", () => void this.write(), { icon: "send" }) : nothing}
    </div>`;
  }

  private filterFields(): TemplateResult {
    return html`<div class="query-row">
      <label class="filter wide ${this.filterError ? "wrong" : ""}">
        ${icon("search")}
        <input
          type="search"
          name="filter"
          aria-label="Filter"
          aria-invalid=${this.filterError ? "true" : "false"}
          placeholder='Text in key, value or headers, or an expression: = value.amount > 100 && headers.source == "web"'
          spellcheck="false"
          .value=${this.query.filter}
          @input=${this.onFilter}
        />
      </label>
      ${this.activity === "searching"
        ? button("Cancel", () => this.stop(), { icon: "stop" })
        : button("Search all", () => void this.search(), { icon: "search", tip: "Reads the whole topic from the chosen start" })}
    </div>`;
  }

  private select(name: keyof MessageQuery, label: string, options: [string, string][]): TemplateResult {
    return html`<select name=${name} aria-label=${label} @change=${(event: Event) => this.set(name, event)}>
      ${options.map(([value, text]) => html`<option value=${value} ?selected=${value === this.query[name]}>${text}</option>`)}
    </select>`;
  }

  private input(name: keyof MessageQuery, label: string, type: string, placeholder: string): TemplateResult {
    return html`<input
      type=${type}
      name=${name}
      aria-label=${label}
      placeholder=${placeholder}
      step=${type === "datetime-local" ? "1" : nothing}
      .value=${this.query[name]}
      @input=${(event: Event) => this.set(name, event)}
    />`;
  }

  private statusLine(): TemplateResult {
    if (this.filterError) return html`<span class="bad-text">${this.filterError}</span>`;
    if (this.activity === "searching" && this.progress) {
      const { scanned, total, matched } = this.progress;
      return html`<progress max=${Math.max(1, total)} .value=${scanned} aria-label="Search"></progress>
        <span>${count(scanned)} of ${count(total)} read, ${count(matched)} found</span>`;
    }
    if (this.activity === "tailing") {
      const dropped = this.dropped ? `, ${plural(this.dropped, "record")} skipped because they came too fast` : "";
      const gaps = this.interruptions ? `, ${plural(this.interruptions, "interruption")}: what was written meanwhile is missing here` : "";
      if (this.trouble) return html`<span class="warn-text">${icon("warning")}${this.trouble}</span>`;
      return html`<i class="tail-dot"></i><span>Live, the newest ${count(this.records.length)}${dropped}${gaps}</span>`;
    }
    return html`<span>${this.activity === "reading" ? "Reading…" : this.status}</span>
      ${this.next && this.activity === "idle" ? button(this.query.from === "latest" ? "Older records" : "Next records", () => void this.read(true), { icon: "right", tone: "quiet" }) : nothing}`;
  }

  private whenEmpty() {
    if (this.activity === "tailing") return { icon: "play" as const, title: "Waiting for new records", text: "Records appear here as they are written." };
    if (this.activity !== "idle") return { icon: "search" as const, title: "Reading…" };
    if (this.error) return { title: "No records were read" };
    return {
      title: "No records found",
      text: this.query.filter
        ? "“Read” looks at the chosen part of the topic. “Search all” reads all of it."
        : "The topic is empty here. Choose another start, or write a record.",
    };
  }

  private set(name: keyof MessageQuery, event: Event): void {
    this.query = { ...this.query, [name]: (event.target as HTMLInputElement).value };
    rememberInAddress(forAddress(this.query));
  }

  private onFilter(event: Event): void {
    this.set("filter", event);
    window.clearTimeout(this.filterTimer);
    this.filterTimer = window.setTimeout(() => void this.checkFilter(), FILTER_CHECK_DELAY_MS);
  }

  private async checkFilter(): Promise<void> {
    const { filter } = this.query;
    const isExpression = filter.startsWith("=");
    const answer = isExpression ? await ask<{ ok: boolean; message?: string }>("/filter", { filter }).catch(() => ({ ok: true, message: "" })) : { ok: true };
    if (filter === this.query.filter) this.filterError = answer.ok ? "" : (answer.message ?? "The expression is not valid.");
  }

  private onSubmit(event: Event): void {
    event.preventDefault();
    void this.read();
  }

  private downloadAddress(): string {
    return withQuery(`/api${at`/topics/${this.topic}/download`}`, { ...forApi(this.query), format: "json", limit: RECORDS_KEPT });
  }

  /** Ends what is going on. Records that were found stay. */
  private stop(): void {
    this.work?.abort();
    this.stream?.close();
    this.stream = undefined;
    this.activity = "idle";
  }

  private begin(activity: Activity, { keepsRecords = false } = {}): AbortSignal {
    this.stop();
    this.activity = activity;
    this.error = null;
    this.isTailOver = false;
    this.trouble = "";
    if (!keepsRecords) {
      this.records.clear();
      this.showRecords();
    }
    this.work = new AbortController();
    return this.work.signal;
  }

  private showRecords({ newestFirst = false } = {}): void {
    const records = [...this.records.toArray()];
    this.rows = localRows(newestFirst ? records.reverse() : records);
  }

  private async read(isNext = false): Promise<void> {
    const isNewest = this.query.from === "latest";
    // After the newest records come the older ones.
    const page = isNext && this.next ? { positions: positionsOf(this.next), ...(isNewest ? { from: "before" } : {}) } : {};
    const signal = this.begin("reading");
    try {
      const answer = await get<Messages>(at`/topics/${this.topic}/messages`, { ...forApi(this.query), ...page }, signal);
      this.records.push(...answer.items);
      const isLast = isNewest ? Object.values(answer.previous).every((offset) => offset === 0) : !answer.items.length;
      this.next = isLast ? null : isNewest ? answer.previous : answer.next;
      this.status = `${plural(answer.items.length, "record")}${answer.is_complete ? "" : ", and there are more"}`;
      this.showRecords();
    } catch (error) {
      this.failed(error, signal);
    }
    if (!signal.aborted) this.activity = "idle";
  }

  private async search(): Promise<void> {
    const start = this.query.from === "latest" ? { ...this.query, from: "earliest" as const } : this.query;
    const signal = this.begin("searching");
    this.progress = { scanned: 0, total: 0, matched: 0 };
    this.next = null;
    try {
      const url = withQuery(`/api${at`/topics/${this.topic}/search`}`, { ...forApi(start), limit: RECORDS_KEPT });
      for await (const line of readLines<SearchLine>(url, signal)) this.onSearchLine(line);
    } catch (error) {
      this.failed(error, signal);
    }
    if (signal.aborted && this.progress) this.status = `Cancelled after ${plural(this.progress.scanned, "record")}.`;
    else this.activity = "idle";
    this.showRecords();
  }

  private onSearchLine(line: SearchLine): void {
    if (line.error) throw new ApiError(0, line.error.code, line.error.message, line.error.hint);
    if (line.message) this.records.push(line.message);
    if (line.progress) {
      this.progress = line.progress;
      this.showRecords();
    }
    if (line.done) {
      const more = line.done.reason === "limit" ? " There may be more." : "";
      this.status = `${count(line.done.matched)} found in ${plural(line.done.scanned, "record")}.${more}`;
    }
  }

  private failed(error: unknown, signal: AbortSignal): void {
    if (signal.aborted) return;
    this.error = error instanceof ApiError ? error : new ApiError(0, "ERROR", String(error));
  }

  /** A tail that goes on keeps its records, and continues with what is written from now on. */
  private tail({ goesOn = false } = {}): void {
    this.begin("tailing", { keepsRecords: goesOn });
    if (!goesOn) this.dropped = this.interruptions = 0;
    this.next = null;
    const stream = (this.stream = new EventSource(this.tailAddress()));
    let isInterrupted = goesOn;
    stream.addEventListener("ready", () => {
      if (isInterrupted) this.interruptions++;
      isInterrupted = false;
      this.trouble = "";
    });
    stream.addEventListener("trouble", (event) => (this.trouble = JSON.parse(event.data).message));
    stream.addEventListener("recovered", () => (this.trouble = ""));
    stream.addEventListener("message", (event) => {
      this.trouble = "";
      this.records.push(...(JSON.parse(event.data) as Message[]));
      this.showRecords({ newestFirst: true });
    });
    stream.addEventListener("dropped", (event) => (this.dropped += JSON.parse(event.data).count));
    stream.addEventListener("error", (event) => {
      isInterrupted = true;
      void this.onTailError(event, stream);
    });
  }

  private tailAddress(): string {
    return withQuery(`/api${at`/topics/${this.topic}/tail`}`, forTail(this.query));
  }

  /** An error that the server tells, or a stream that it refused. A stream that broke is opened again by the browser. */
  private async onTailError(event: Event, stream: EventSource): Promise<void> {
    const problem = event instanceof MessageEvent ? (JSON.parse(event.data) as { code: string; message: string; hint: string | null }) : null;
    if (!problem && stream.readyState !== EventSource.CLOSED) {
      this.trouble = "The connection to the console is interrupted, and is opened again…";
      return;
    }
    this.stop();
    this.isTailOver = true;
    this.error = problem ? new ApiError(0, problem.code, problem.message, problem.hint) : await this.refusal();
  }

  /** Why the server refuses the tail: an EventSource does not tell. */
  private async refusal(): Promise<ApiError> {
    const work = new AbortController();
    try {
      const response = await fetch(this.tailAddress(), { signal: work.signal, credentials: "same-origin" });
      if (!response.ok) return await errorOf(response);
    } catch {
      // The console cannot be reached.
    } finally {
      work.abort();
    }
    return new ApiError(0, "NOT_LIVE", "The tail was interrupted.", "It can go on with the records that are written from now on.");
  }

  private show(message: Message): void {
    const order = this.activity === "tailing" ? [...this.records.toArray()].reverse() : this.records.toArray();
    showMessage({
      topic: this.topic,
      message,
      neighbour: (from, step) => order[order.indexOf(from) + step],
      resend: (again) => void this.write(again),
    });
  }

  private async write(again?: Message): Promise<void> {
    const start = again && {
      key: fieldText(again.key),
      value: fieldText(again.value),
      headers: again.headers.map((header) => `${header.name}=${fieldText(header.value, 0)}`).join("\n"),
    };
    const outcome = await propose(production(this.topic, start));
    if (outcome && this.activity === "idle") await this.read();
  }
}

function positionsOf(offsets: Record<string, number>): string {
  return Object.entries(offsets).map((pair) => pair.join(":")).join(",");
}

const COLUMNS: Column<Message>[] = [
  { key: "offset", label: "Offset", number: true, width: "130", narrow: "100", cell: (message) => count(message.offset) },
  { key: "partition", label: "Part.", number: true, width: "70", tip: "Partition", hide: "narrow" },
  { key: "timestamp", label: "Time", width: "210", hide: "middle", cell: (message) => time(message.timestamp) },
  { key: "key", label: "Key", width: "16%", narrow: "32%", cell: (message) => fieldLine(message.key) },
  { key: "value", label: "Value", cell: (message) => fieldLine(message.value) },
];
