/** Reassignment and balancing: replicas per broker, moves in progress, plans with a picture of before and after. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { get } from "../core/api.js";
import { bytes, count, plural } from "../core/format.js";
import { Part } from "../core/part.js";
import { Resource } from "../core/resource.js";
import { mayWrite } from "../core/session.js";
import type { BalanceRun, Broker, Page, Reassignment } from "../core/types.js";
import { badge, button, card, iconButton, meter, pageHead, term } from "../parts/bits.js";
import { propose, type Change } from "../parts/change.js";
import { parseList } from "../parts/fields.js";
import { icon } from "../parts/icons.js";
import { localRows } from "../parts/rows.js";
import "../parts/table.js";
import type { Column } from "../parts/table.js";
import { BALANCING, ELECTION, layoutPicture, RESUMPTION, STOP } from "./balance-changes.js";

@customElement("page-balance")
export class BalancePage extends Part {
  private brokers = new Resource<Page<Broker>>(this, (signal) => get("/brokers", { sort: "id", size: 500 }, signal), { everySeconds: 5 });
  private moving = new Resource(
    this,
    async (signal) => localRows((await get<{ items: Reassignment[] }>("/reassignments", {}, signal)).items),
    { everySeconds: 3 },
  );

  private run = new Resource<BalanceRun>(this, (signal) => get("/balance", {}, signal), { everySeconds: 3 });

  override render(): TemplateResult {
    return html`${pageHead({
      title: "Balance",
      lead: "How replicas and leaders are spread over the brokers, and how to move them.",
      actions: mayWrite()
        ? html`${button("Balance…", () => void this.change(BALANCING), { icon: "balance", tone: "primary" })}
          ${button("Move replicas…", () => void this.move())}
          ${button("Elect preferred leaders…", () => void this.change(ELECTION))}`
        : nothing,
    })}
    ${this.brokers.value ? lostBrokers(this.brokers.value.items) : nothing} ${this.run.render((run) => this.showRun(run))}
    ${this.brokers.render((page) => this.spread(page.items))}
    ${this.moving.render((rows) =>
      card(
        "Moves in progress",
        html`<o-table
          short
          label="Moves in progress"
          .columns=${this.columns()}
          .source=${rows}
          .whenEmpty=${{ icon: "check", title: "Nothing is moving", text: "Replicas that move to another broker appear here." }}
        ></o-table>`,
      ),
    )}`;
  }

  private showRun(run: BalanceRun): TemplateResult {
    if (run.state === "idle") return html``;
    const actions = {
      running: () => button("Stop…", () => void this.change(STOP), { icon: "stop" }),
      interrupted: () => button("Resume…", () => void this.change(RESUMPTION), { icon: "play" }),
      done: () => nothing,
    }[run.state];
    const tone = { running: "info", interrupted: "warn", done: "good" } as const;
    return card(
      html`Balancing ${badge(run.state, tone[run.state])}`,
      html`${meter(run.partitions ? (run.partitions_done ?? 0) / run.partitions : 0)}
        ${run.message ? html`<p class="notice warn block">${icon("warning")}<span>${run.message}</span></p>` : nothing}`,
      {
        lead: `Step ${run.step ?? 0} of ${run.steps ?? 0}, ${count(run.partitions_done ?? 0)} of ${plural(run.partitions ?? 0, "partition")} moved${run.user ? `, started by ${run.user.replace(/^User:/, "")}` : ""}`,
        actions: mayWrite() ? actions() : nothing,
      },
    );
  }

  private spread(brokers: Broker[]): TemplateResult {
    const most = Math.max(1, ...brokers.map((broker) => broker.replicas));
    return card(
      "Replicas by broker",
      html`<ul class="plain layout-bars">
        ${brokers.map(
          (broker) => html`<li>
            <span><a href="/brokers/${broker.id}">Broker ${broker.id}</a> ${broker.is_alive ? nothing : badge("down", "bad")}</span>
            <svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="${broker.replicas} replicas, leads ${broker.leaders}">
              <rect class="all" width=${(100 * broker.replicas) / most} height="10" rx="1" />
              <rect class="led" width=${(100 * broker.leaders) / most} height="10" rx="1" />
            </svg>
            <span class="soft small">${count(broker.replicas)}, leads ${count(broker.leaders)}, ${bytes(broker.bytes)}</span>
          </li>`,
        )}
      </ul>`,
      { lead: html`The strong colour is for ${term("leader", "leaders")}: they take all writes.` },
    );
  }

  private columns(): Column<Reassignment>[] {
    return [
      { key: "topic", label: "Partition", cell: (row) => html`<a href="/topics/${encodeURIComponent(row.topic)}">${row.topic}-${row.partition}</a>` },
      { key: "replicas", label: "Replicas", width: "160", hide: "narrow", cell: (row) => row.replicas.join(", ") },
      { key: "adding", label: "Joins", width: "80", cell: (row) => row.adding.map((id) => badge(id, "good")) },
      { key: "removing", label: "Leaves", width: "80", cell: (row) => row.removing.map((id) => badge(id, "warn")) },
      { key: "action", label: "", width: "64", cell: (row) => (mayWrite() ? iconButton("close", "Cancel the move", () => void this.cancel(row)) : nothing) },
    ];
  }

  private async move(): Promise<void> {
    const brokers = (this.brokers.value?.items ?? []).filter((broker) => broker.is_alive).map((broker) => broker.id);
    await this.change({
      title: "Move replicas",
      lead: "Spreads the replicas of topics evenly over the brokers that you name. Records are copied in the background.",
      method: "POST",
      path: "/reassignments",
      verb: "Move",
      fields: [
        { name: "topics", label: "Topics", required: true, placeholder: "orders, clicks" },
        { name: "brokers", label: "To brokers", required: true, value: brokers.join(", ") },
      ],
      body: (values) => ({ topics: parseList(values.topics ?? ""), brokers: parseList(values.brokers ?? "").map(Number) }),
      picture: layoutPicture,
    });
  }

  private async cancel(row: Reassignment): Promise<void> {
    await this.change({
      title: `Cancel the move of ${row.topic}-${row.partition}`,
      lead: "The partition keeps the replicas that it had before.",
      method: "DELETE",
      path: "/reassignments",
      verb: "Cancel the move",
      body: () => ({ partitions: [{ topic: row.topic, partition: row.partition }] }),
      picture: layoutPicture,
    });
  }

  private async change(change: Change): Promise<void> {
    if (!(await propose(change))) return;
    await Promise.all([this.moving.reload(), this.brokers.reload(), this.run.reload()]);
  }
}

/** Replicas stay assigned to a broker that is down: nothing moves by itself. */
function lostBrokers(brokers: Broker[]): TemplateResult | typeof nothing {
  const lost = brokers.filter((broker) => !broker.is_alive);
  if (!lost.length) return nothing;
  const replicas = lost.reduce((sum, broker) => sum + broker.replicas, 0);
  const names = `${lost.length === 1 ? "Broker" : "Brokers"} ${lost.map((broker) => broker.id).join(", ")}`;
  return html`<p class="notice warn block" role="status">
    ${icon("warning")}<span>${names} ${lost.length === 1 ? "is" : "are"} not running, with ${plural(replicas, "replica")}. They stay there
      until the broker is back. “Balance…” tells whether other brokers can take them.</span>
  </p>`;
}
