/** One topic: partitions, records, groups that read it, settings. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { at, get } from "../core/api.js";
import { brief, bytes, count } from "../core/format.js";
import { Part } from "../core/part.js";
import { Resource } from "../core/resource.js";
import { navigate } from "../core/router.js";
import { mayWrite, session } from "../core/session.js";
import type { Group, Page, Partition, TopicDetail } from "../core/types.js";
import { badge, button, figure, pageHead, term } from "../parts/bits.js";
import { propose, type Change } from "../parts/change.js";
import { replicaChips } from "../parts/replicas.js";
import "../parts/settings.js";
import "../parts/table.js";
import type { Column } from "../parts/table.js";
import { chosenTab, tabBar, type Tab } from "../parts/tabs.js";
import { stateBadge } from "./group-bits.js";
import "./messages.js";
import { deletion, emptying, morePartitions } from "./topic-changes.js";

@customElement("page-topic")
export class TopicPage extends Part {
  @property() name = "";
  @property() tab = "";
  private detail = new Resource<TopicDetail>(this, (signal) => get(at`/topics/${this.name}`, {}, signal), { everySeconds: 10 });
  private partitionRows = (query: object, signal: AbortSignal) =>
    get<Page<Partition>>(at`/topics/${this.name}/partitions`, { ...query }, signal);
  private groupRows = async (_query: object, signal: AbortSignal) => {
    const { items } = await get<{ items: Group[] }>(at`/topics/${this.name}/groups`, {}, signal);
    return { items, total: items.length, page: 1, size: items.length };
  };

  override render(): TemplateResult {
    return this.detail.render((topic) => {
      const tabs = this.tabs(topic);
      const tab = chosenTab(tabs);
      return html`${this.head(topic)} ${tabBar(tabs, tab)} ${this.body(topic, tab)}`;
    }, pageHead({ back: { href: "/topics", label: "Topics" }, title: this.name }));
  }

  private tabs(topic: TopicDetail): Tab[] {
    const changed = (topic.settings ?? []).filter((setting) => setting.source === "DYNAMIC_TOPIC_CONFIG").length;
    return [
      { id: "partitions", label: "Partitions", count: topic.partitions },
      ...(session()?.rights.messages ? [{ id: "messages", label: "Records" }] : []),
      { id: "groups", label: "Groups" },
      { id: "settings", label: "Settings", count: changed || null },
    ];
  }

  private head(topic: TopicDetail): TemplateResult {
    return html`${pageHead({
      back: { href: "/topics", label: "Topics" },
      title: topic.name,
      badges: html`${topic.is_internal ? badge("internal") : nothing}
      ${topic.offline
        ? badge(`${topic.offline} offline`, "bad")
        : topic.under_replicated
          ? badge(`${topic.under_replicated} under-replicated`, "warn")
          : badge("in sync", "good")}`,
      actions: mayWrite()
        ? html`${button("Add partitions…", () => void this.change(morePartitions(topic)))}
          ${button("Delete records…", () => void this.change(emptying(topic)))}
          ${button("Delete…", () => void this.deleteTopic(topic), { icon: "trash", tone: "danger" })}`
        : nothing,
    })}`;
  }

  private body(topic: TopicDetail, tab: string): TemplateResult {
    if (tab === "messages") return html`<o-messages .topic=${topic.name} .partitions=${topic.partitions}></o-messages>`;
    if (tab === "groups") return this.groups();
    if (tab === "settings") {
      return html`<o-settings
        class="fill"
        .settings=${topic.settings ?? []}
        path=${at`/topics/${topic.name}/settings`}
        owner="topic ${topic.name}"
        @changed=${() => void this.detail.reload()}
      ></o-settings>`;
    }
    return html`<div class="figures">
        ${figure("Records", brief(topic.records), { note: "last minus first offset" })}
        ${figure("Size", bytes(topic.bytes), { note: "logs of the leaders" })}
        ${figure(term("replica", "Replicas"), count(topic.replication_factor), { note: "of each partition" })}
        ${topic.link_schema
          ? figure("Schema", html`<span class="figure-text">${topic.link_schema}</span>`, { href: `/schemas/${encodeURIComponent(topic.link_schema)}` })
          : nothing}
      </div>
      <o-table class="fill" label="Partitions" sort="partition" refresh="5" .columns=${PARTITION_COLUMNS} .source=${this.partitionRows}></o-table>`;
  }

  private groups(): TemplateResult {
    return html`<o-table
      class="fill"
      label="Groups"
      .columns=${GROUP_COLUMNS}
      .source=${this.groupRows}
      .href=${(group: Group) => `/groups/${encodeURIComponent(group.id)}`}
      .whenEmpty=${{ icon: "group", title: "No group reads this topic", text: "A group appears here as soon as it has members on the topic or has committed offsets." }}
    ></o-table>`;
  }

  private async change(change: Change): Promise<void> {
    if (!(await propose(change))) return;
    await this.detail.reload();
    this.querySelector("o-table")?.reload();
  }

  private async deleteTopic(topic: TopicDetail): Promise<void> {
    if (await propose(deletion(topic))) navigate("/topics");
  }
}

const PARTITION_COLUMNS: Column<Partition>[] = [
  { key: "partition", label: "Partition", number: true, sortable: true, width: "100" },
  {
    key: "leader",
    label: "Leader",
    width: "110",
    sortable: true,
    cell: (partition) =>
      partition.leader === null || partition.leader < 0 ? badge("offline", "bad") : html`<a href="/brokers/${partition.leader}">broker ${partition.leader}</a>`,
  },
  { key: "replicas", label: "Replicas", cell: replicaChips, tip: "Brokers with a copy. The leader is filled; a copy that is not in sync is marked." },
  { key: "first_offset", label: "First offset", number: true, width: "120", hide: "middle", cell: (partition) => count(partition.first_offset) },
  { key: "last_offset", label: "Next offset", number: true, width: "120", hide: "narrow", cell: (partition) => count(partition.last_offset), tip: "The offset that the next record gets" },
  { key: "bytes", label: "Size", number: true, width: "110", hide: "narrow", cell: (partition) => bytes(partition.bytes) },
];

const GROUP_COLUMNS: Column<Group>[] = [
  { key: "id", label: "Group" },
  { key: "state", label: "State", width: "150", narrow: "88", cell: (group) => stateBadge(group.state) },
  { key: "lag", label: "Lag", number: true, width: "120", narrow: "68", cell: (group) => count(group.lag), tip: "Records of this topic that the group has not read yet" },
];
