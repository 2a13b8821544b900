/** Brokers and the quorum of controllers. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { get } from "../core/api.js";
import { ago, bytes, count } from "../core/format.js";
import { Part } from "../core/part.js";
import { Resource } from "../core/resource.js";
import { hasFeature } from "../core/session.js";
import type { Broker, Page, Quorum, QuorumReplica } from "../core/types.js";
import { badge, card, facts, pageHead, term } from "../parts/bits.js";
import { localRows } from "../parts/rows.js";
import "../parts/table.js";
import type { Column } from "../parts/table.js";

@customElement("page-brokers")
export class BrokersPage extends Part {
  private source = (query: object, signal: AbortSignal) => get<Page<Broker>>("/brokers", { ...query }, signal);
  private quorum = new Resource<{ quorum: Quorum | null; replicas: ReturnType<typeof localRows<Row>> | null }>(
    this,
    async (signal) => {
      if (!hasFeature("quorum")) return { quorum: null, replicas: null };
      const quorum = await get<Quorum>("/quorum", {}, signal);
      return { quorum, replicas: localRows(rowsOf(quorum)) };
    },
    { everySeconds: 5 },
  );

  override render(): TemplateResult {
    return html`${pageHead({
        title: "Brokers",
        lead: html`A broker stores ${term("replica", "replicas")} of partitions and serves clients.`,
      })}
      <o-table
        short
        label="Brokers"
        sort="id"
        .columns=${COLUMNS}
        refresh="3"
        .source=${this.source}
        .href=${(broker: Broker) => `/brokers/${broker.id}`}
      ></o-table>
      ${this.quorum.render(({ quorum, replicas }) => (quorum ? this.showQuorum(quorum, replicas!) : html``))}`;
  }

  private showQuorum(quorum: Quorum, replicas: ReturnType<typeof localRows<Row>>): TemplateResult {
    return card(
      "Metadata quorum",
      html`${facts([
          ["Leader", `node ${quorum.leader}`],
          ["Epoch", count(quorum.epoch)],
          [term("high watermark", "High watermark"), count(quorum.high_watermark)],
        ])}
        <o-table short label="Nodes of the quorum" .columns=${QUORUM_COLUMNS} .source=${replicas}></o-table>`,
      { lead: "Controllers keep the metadata of the cluster in a log of their own. A majority of the voters has to be alive." },
    );
  }
}

type Row = QuorumReplica & { role: "leader" | "voter" | "observer" };

function rowsOf(quorum: Quorum): Row[] {
  return [
    ...quorum.voters.map((voter) => ({ ...voter, role: voter.id === quorum.leader ? ("leader" as const) : ("voter" as const) })),
    ...quorum.observers.map((observer) => ({ ...observer, role: "observer" as const })),
  ];
}

const COLUMNS: Column<Broker>[] = [
  { key: "id", label: "Broker", sortable: true, width: "110", narrow: "88", cell: (broker) => html`<b>${broker.id}</b>` },
  {
    key: "host",
    label: "Address",
    hide: "narrow",
    cell: (broker) => html`<span class="mono">${broker.host}:${broker.port}</span> ${broker.is_controller ? badge("controller", "info") : nothing}`,
  },
  {
    key: "is_alive",
    label: "State",
    width: "150",
    narrow: "",
    cell: (broker) =>
      !broker.is_alive ? badge("down", "bad") : broker.out_of_sync ? badge(`${broker.out_of_sync} behind`, "warn") : badge("alive", "good"),
  },
  { key: "rack", label: "Rack", width: "120", hide: "middle", cell: (broker) => broker.rack ?? html`<span class="faint">–</span>` },
  { key: "leaders", label: "Leads", number: true, sortable: true, width: "90", hide: "narrow", cell: (broker) => count(broker.leaders), tip: "Partitions whose leader is this broker" },
  { key: "replicas", label: "Replicas", number: true, sortable: true, width: "110", hide: "narrow", cell: (broker) => count(broker.replicas) },
  { key: "bytes", label: "Size", number: true, sortable: true, width: "110", cell: (broker) => bytes(broker.bytes) },
];

const QUORUM_COLUMNS: Column<Row>[] = [
  { key: "id", label: "Node", width: "72", cell: (replica) => html`<b>${replica.id}</b>` },
  {
    key: "role",
    label: "Role",
    cell: (replica) => badge(replica.role, replica.role === "leader" ? "good" : replica.role === "voter" ? "info" : "plain"),
  },
  { key: "log_end_offset", label: "Log end", number: true, width: "120", hide: "narrow", cell: (replica) => count(replica.log_end_offset) },
  { key: "lag", label: "Behind by", number: true, width: "110", cell: (replica) => count(replica.lag) },
  {
    key: "last_caught_up",
    label: "Caught up",
    number: true,
    width: "150",
    hide: "narrow",
    cell: (replica) => (replica.role === "leader" ? html`<span class="faint">–</span>` : ago(replica.last_caught_up)),
  },
];
