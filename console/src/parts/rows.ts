/** Rows of a list that is longer than the window: pages are fetched as they come into view, and forgotten later. */

import { ApiError, type Query } from "../core/api.js";
import type { Page } from "../core/types.js";

const PAGE_SIZE = 100;
const PAGES_KEPT = 12;

export type Source<Row> = (query: Query, signal: AbortSignal) => Promise<Page<Row>>;

export class PagedRows<Row> {
  total: number | null = null;
  error: ApiError | null = null;
  private pages = new Map<number, Row[]>();
  private pending = new Map<number, AbortController>();

  constructor(
    private readonly source: Source<Row>,
    private readonly query: Query,
    private readonly changed: () => void,
  ) {}

  get isLoading(): boolean {
    return this.pending.size > 0;
  }

  at(index: number): Row | undefined {
    return this.pages.get(Math.floor(index / PAGE_SIZE))?.[index % PAGE_SIZE];
  }

  /** Fetches the pages of a range that are missing, and drops pages far away from it. */
  want(first: number, last: number): void {
    const from = Math.floor(first / PAGE_SIZE);
    const to = Math.floor(Math.max(first, last) / PAGE_SIZE);
    for (let page = from; page <= to; page += 1) {
      if (!this.pages.has(page) && !this.pending.has(page) && !this.error) void this.fetch(page);
    }
    for (const [page, aborter] of this.pending) if (page < from - 1 || page > to + 1) aborter.abort();
    for (const page of this.pages.keys()) {
      if (this.pages.size <= PAGES_KEPT) break;
      if (page < from - 1 || page > to + 1) this.pages.delete(page);
    }
  }

  stop(): void {
    for (const aborter of this.pending.values()) aborter.abort();
  }

  private async fetch(page: number): Promise<void> {
    const aborter = new AbortController();
    this.pending.set(page, aborter);
    try {
      const answer = await this.source({ ...this.query, page: page + 1, size: PAGE_SIZE }, aborter.signal);
      this.pages.set(page, answer.items);
      this.total = answer.total;
    } catch (error) {
      if (aborter.signal.aborted) return;
      this.error = error instanceof ApiError ? error : new ApiError(0, "ERROR", String(error));
    } finally {
      this.pending.delete(page);
    }
    this.changed();
  }
}

/** Rows that are already here, sorted and filtered as the server would do it. */
export function localRows<Row extends object>(rows: readonly Row[], textOf?: (row: Row) => string): Source<Row> {
  return async (query) => {
    const filter = String(query.filter ?? "").toLowerCase();
    const text = (row: Row) => (textOf ? textOf(row) : JSON.stringify(row)).toLowerCase();
    const matching = filter ? rows.filter((row) => text(row).includes(filter)) : [...rows];
    const sort = String(query.sort ?? "");
    if (sort) matching.sort(comparing(sort));
    const start = (Number(query.page) - 1) * Number(query.size);
    const items = matching.slice(start, start + Number(query.size));
    return { items, total: matching.length, page: Number(query.page), size: Number(query.size) };
  };
}

function comparing<Row extends object>(sort: string): (left: Row, right: Row) => number {
  const direction = sort.startsWith("-") ? -1 : 1;
  const field = sort.replace(/^-/, "") as keyof Row;
  return (left, right) => {
    const [a, b] = [left[field], right[field]];
    if (typeof a === "number" && typeof b === "number") return direction * (a - b);
    return direction * String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
  };
}
