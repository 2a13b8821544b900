/** Transactions, and those that hang and hold consumers back. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { at, get } from "../core/api.js";
import { ago, count, duration } from "../core/format.js";
import { Part } from "../core/part.js";
import { Resource } from "../core/resource.js";
import { mayWrite } from "../core/session.js";
import type { HangingTransaction, Page, Transaction } from "../core/types.js";
import { badge, button, card, pageHead, term } from "../parts/bits.js";
import { propose } from "../parts/change.js";
import { icon } from "../parts/icons.js";
import { localRows } from "../parts/rows.js";
import "../parts/table.js";
import type { Column } from "../parts/table.js";

@customElement("page-transactions")
export class TransactionsPage extends Part {
  private source = (query: object, signal: AbortSignal) => get<Page<Transaction>>("/transactions", { ...query }, signal);
  private hanging = new Resource(this, async (signal) => {
    const { items } = await get<{ items: HangingTransaction[] }>("/transactions/hanging", {}, signal);
    return { count: items.length, rows: localRows(items) };
  });

  override render(): TemplateResult {
    return html`${pageHead({
        title: "Transactions",
        lead: html`A ${term("transaction")} writes records to several partitions that become visible together, or never.`,
      })}
      ${this.hanging.render(({ count: number, rows }) => this.showHanging(number, rows))}
      <o-table
        class="fill"
        label="Transactions"
        sort="transactional_id"
        filterable
        addressed
        placeholder="Filter transactional ids"
        refresh="10"
        .columns=${this.columns()}
        .source=${this.source}
        .whenEmpty=${{
          icon: "transaction",
          title: "No producer has used a transaction yet",
          text: html`Producers with a <code>transactional.id</code> appear here.`,
        }}
      ></o-table>`;
  }

  private showHanging(number: number, rows: ReturnType<typeof localRows<HangingTransaction>>): TemplateResult {
    if (!number) return html`<p class="notice good">${icon("check")}<span>No transaction is ${term("hanging")}.</span></p>`;
    return card(
      html`${term("hanging", "Hanging")} ${badge(number, "bad")}`,
      html`<o-table short label="Hanging transactions" .columns=${this.hangingColumns()} .source=${rows}></o-table>`,
      { lead: "Consumers that read committed records wait in front of these. Abort one only if its producer is gone." },
    );
  }

  private columns(): Column<Transaction>[] {
    return [
      { key: "transactional_id", label: "Transactional id", sortable: true },
      { key: "state", label: "State", width: "136", cell: (row) => badge(row.state, row.state === "Ongoing" ? "info" : "plain") },
      { key: "producer_id", label: "Producer", number: true, width: "110", hide: "narrow" },
      { key: "partitions", label: "Partitions", number: true, width: "110", hide: "middle", cell: (row) => count(row.partitions) },
      { key: "started", label: "Started", number: true, width: "150", hide: "narrow", cell: (row) => (row.started && row.started > 0 ? ago(row.started) : "–") },
      { key: "timeout_ms", label: "Timeout", number: true, width: "110", hide: "middle", cell: (row) => duration(row.timeout_ms) },
      {
        key: "action",
        label: "",
        width: "80",
        cell: (row) => (mayWrite() && row.state === "Ongoing" ? button("End…", () => void this.terminate(row), { tone: "quiet" }) : nothing),
      },
    ];
  }

  private hangingColumns(): Column<HangingTransaction>[] {
    return [
      { key: "topic", label: "Partition", cell: (row) => html`<a href="/topics/${encodeURIComponent(row.topic)}">${row.topic}-${row.partition}</a>` },
      { key: "producer_id", label: "Producer", number: true, width: "110" },
      { key: "start_offset", label: "First offset", number: true, width: "120", hide: "narrow", cell: (row) => count(row.start_offset) },
      { key: "age_ms", label: "Open for", number: true, width: "130", cell: (row) => duration(row.age_ms) },
      {
        key: "action",
        label: "",
        width: "120",
        cell: (row) => (mayWrite() ? button("Abort…", () => void this.abort(row), { tone: "danger" }) : nothing),
      },
    ];
  }

  private async terminate(row: Transaction): Promise<void> {
    await this.change({
      title: `End the transaction of ${row.transactional_id}`,
      lead: "Its records are aborted, and its producer is fenced: it cannot write any more.",
      method: "POST",
      path: at`/transactions/${row.transactional_id}/terminate`,
      verb: "End the transaction",
      danger: true,
    });
  }

  private async abort(row: HangingTransaction): Promise<void> {
    const { topic, partition, start_offset } = row;
    await this.change({
      title: `Abort the transaction in ${topic}-${partition}`,
      lead: "Writes an abort marker, so that consumers continue. The records of this transaction are never shown to them.",
      method: "POST",
      path: "/transactions/abort",
      body: () => ({ topic, partition, start_offset }),
      verb: "Abort",
      danger: true,
    });
  }

  private async change(change: Parameters<typeof propose>[0]): Promise<void> {
    if (!(await propose(change))) return;
    await this.hanging.reload();
    this.querySelectorAll("o-table").forEach((table) => table.reload());
  }
}
