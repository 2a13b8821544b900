/** The list of topics. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { get } from "../core/api.js";
import { brief, bytes, count } from "../core/format.js";
import { Part } from "../core/part.js";
import { navigate, rememberInAddress } from "../core/router.js";
import { mayWrite } from "../core/session.js";
import type { Page, Topic } from "../core/types.js";
import { badge, button, copyable, pageHead } from "../parts/bits.js";
import { propose } from "../parts/change.js";
import "../parts/table.js";
import type { Column } from "../parts/table.js";
import { creation } from "./topic-changes.js";

@customElement("page-topics")
export class TopicsPage extends Part {
  @property() health = "all";
  @property({ attribute: false }) isCreating = false;
  @state() private isInternalShown = false;
  private source = (query: object, signal: AbortSignal) => get<Page<Topic>>("/topics", { ...query }, signal);

  protected override updated(): void {
    if (!this.isCreating) return;
    this.isCreating = false;
    rememberInAddress({ create: null });
    if (mayWrite()) void this.create();
  }

  override render(): TemplateResult {
    return html`${pageHead({
        title: "Topics",
        lead: "A topic is a named log of records. Producers append to it, consumers read from it.",
        actions: mayWrite() ? button("Create a topic", () => void this.create(), { icon: "plus", tone: "primary" }) : nothing,
      })}
      <o-table
        class="fill"
        label="Topics"
        sort="name"
        filterable
        addressed
        placeholder="Filter topics"
        refresh="10"
        .columns=${COLUMNS}
        .source=${this.source}
        .query=${this.query}
        .href=${(topic: Topic) => `/topics/${encodeURIComponent(topic.name)}`}
        .tools=${this.tools()}
        .whenEmpty=${this.whenEmpty()}
      ></o-table>`;
  }

  private queryCache: { internal: boolean; health: string } = { internal: false, health: "all" };

  private get query() {
    const wanted = { internal: this.isInternalShown, health: this.health };
    if (wanted.internal !== this.queryCache.internal || wanted.health !== this.queryCache.health) this.queryCache = wanted;
    return this.queryCache;
  }

  private tools(): TemplateResult {
    const onHealth = (event: Event) => {
      this.health = (event.target as HTMLSelectElement).value;
      rememberInAddress({ health: this.health === "all" ? null : this.health });
    };
    return html`<select aria-label="Health" @change=${onHealth}>
        ${[
          ["all", "Any health"],
          ["under-replicated", "Under-replicated"],
          ["offline", "Offline"],
        ].map(([value, label]) => html`<option value=${value!} ?selected=${value === this.health}>${label}</option>`)}
      </select>
      <label class="check">
        <input
          type="checkbox"
          .checked=${this.isInternalShown}
          @change=${(event: Event) => (this.isInternalShown = (event.target as HTMLInputElement).checked)}
        />
        <span>Internal topics</span>
      </label>`;
  }

  private whenEmpty() {
    if (this.health !== "all") return { icon: "check" as const, title: `No topic is ${this.health}` };
    return {
      title: "There are no topics yet",
      text: "Create one here, or write a first record from a terminal:",
      action: copyable("echo hello | ottla produce greetings"),
    };
  }

  private async create(): Promise<void> {
    let name = "";
    const outcome = await propose(creation((chosen) => (name = chosen)));
    if (outcome) navigate(`/topics/${encodeURIComponent(name)}`);
  }
}

const COLUMNS: Column<Topic>[] = [
  {
    key: "name",
    label: "Topic",
    sortable: true,
    cell: (topic) => html`${topic.name} ${topic.is_internal ? badge("internal") : nothing}`,
  },
  {
    key: "under_replicated",
    label: "Health",
    sortable: true,
    width: "144",
    narrow: "96",
    cell: (topic) =>
      topic.offline
        ? badge(`${topic.offline} offline`, "bad")
        : topic.under_replicated
          ? badge(html`${topic.under_replicated} <span class="hide-narrow">under-replicated</span><span class="only-narrow">behind</span>`, "warn")
          : badge("in sync", "good"),
  },
  { key: "partitions", label: "Partitions", sortable: true, number: true, width: "110", hide: "narrow", cell: (topic) => count(topic.partitions) },
  { key: "replication_factor", label: "Replicas", sortable: true, number: true, width: "110", hide: "middle" },
  { key: "records", label: "Records", number: true, width: "110", hide: "narrow", cell: (topic) => brief(topic.records) },
  { key: "bytes", label: "Size", sortable: true, number: true, width: "96", narrow: "88", cell: (topic) => bytes(topic.bytes) },
];
