/** One group: lag over time, offsets, members, and the reset of offsets with a preview. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { at, get } from "../core/api.js";
import { brief, count, plural } from "../core/format.js";
import { Part } from "../core/part.js";
import { Resource } from "../core/resource.js";
import { navigate } from "../core/router.js";
import { mayWrite } from "../core/session.js";
import type { GroupDetail, GroupMember, GroupOffset } from "../core/types.js";
import { button, card, figure, pageHead, term } from "../parts/bits.js";
import { propose } from "../parts/change.js";
import "../parts/chart.js";
import { localRows } from "../parts/rows.js";
import "../parts/table.js";
import type { Column } from "../parts/table.js";
import { chosenTab, tabBar } from "../parts/tabs.js";
import { groupDeletion, offsetDeletion, offsetReset } from "./group-changes.js";
import { kindBadge, stateBadge } from "./group-bits.js";

@customElement("page-group")
export class GroupPage extends Part {
  @property() group = "";
  @property() tab = "";
  private detail = new Resource(this, (signal) => this.load(signal), { everySeconds: 5 });

  private async load(signal: AbortSignal) {
    const group = await get<GroupDetail>(at`/groups/${this.group}`, {}, signal);
    return { group, offsets: localRows(group.offsets), members: localRows(group.member_list) };
  }

  override render(): TemplateResult {
    return this.detail.render(({ group, offsets, members }) => {
      const tabs = [
        { id: "offsets", label: "Offsets", count: group.offsets.length },
        { id: "members", label: "Members", count: group.member_list.length },
      ];
      const tab = chosenTab(tabs);
      return html`${this.head(group)}
        <div class="figures">
          ${figure(term("lag", "Lag"), brief(group.lag), { tone: group.lag ? "warn" : "plain", note: "records not yet read" })}
          ${figure("Members", count(group.member_list.length), { note: group.assignor ? `assigned by ${group.assignor}` : nothing })}
          ${figure("Topics", count(new Set(group.offsets.map((offset) => offset.topic)).size), { note: plural(group.offsets.length, "partition") })}
          ${figure(term("coordinator", "Coordinator"), group.coordinator ?? "–", { note: "broker" })}
        </div>
        ${this.chart(group)} ${tabBar(tabs, tab)}
        ${tab === "offsets"
          ? html`<o-table
              class="fill"
              label="Offsets"
              filterable
              placeholder="Filter topics and members"
              sort="topic"
              .columns=${OFFSET_COLUMNS}
              .source=${offsets}
              .whenEmpty=${{ icon: "group", title: "The group has no offsets yet", text: "They appear with the first commit of a member." }}
            ></o-table>`
          : html`<o-table
              class="fill"
              label="Members"
              .columns=${MEMBER_COLUMNS}
              .source=${members}
              .whenEmpty=${{ icon: "group", title: "The group has no members", text: "No consumer of this group is running. Its offsets are kept." }}
            ></o-table>`}`;
    }, pageHead({ back: { href: "/groups", label: "Groups" }, title: this.group }));
  }

  private head(group: GroupDetail): TemplateResult {
    const whyNot = group.can_reset ? undefined : (group.why_not ?? "The group has members.");
    const isLocked = !group.can_reset;
    return pageHead({
      back: { href: "/groups", label: "Groups" },
      title: group.id,
      badges: html`${kindBadge(group.kind)} ${stateBadge(group.state)}`,
      lead: isLocked ? whyNot : nothing,
      actions: mayWrite()
        ? html`${button("Reset offsets…", () => void this.change(offsetReset(group)), { disabled: isLocked, tip: whyNot })}
          ${button("Delete offsets…", () => void this.change(offsetDeletion(group)), { disabled: isLocked })}
          ${button("Delete…", () => void this.deleteGroup(group), { icon: "trash", tone: "danger", disabled: group.member_list.length > 0 })}`
        : nothing,
    });
  }

  private chart(group: GroupDetail): unknown {
    if (group.lag_history.length < 2) return nothing;
    const series = [{ label: "lag", colour: "--series-3", values: group.lag_history.map(([, lag]) => lag) }];
    return card(
      "Lag over time",
      html`<o-chart .times=${group.lag_history.map(([time]) => time / 1000)} .series=${series} .format=${brief} height="140"></o-chart>`,
    );
  }

  private async change(change: Parameters<typeof propose>[0]): Promise<void> {
    if (await propose(change)) await this.detail.reload();
  }

  private async deleteGroup(group: GroupDetail): Promise<void> {
    if (await propose(groupDeletion(group))) navigate("/groups");
  }
}

const OFFSET_COLUMNS: Column<GroupOffset>[] = [
  { key: "topic", label: "Topic", sortable: true, cell: (offset) => html`<a href="/topics/${encodeURIComponent(offset.topic)}">${offset.topic}</a>` },
  { key: "partition", label: "Partition", number: true, sortable: true, width: "100", narrow: "84" },
  { key: "committed", label: "Committed", number: true, sortable: true, width: "120", hide: "narrow", cell: (offset) => count(offset.committed), tip: "Where the group continues after a restart" },
  { key: "last_offset", label: "Log end", number: true, width: "120", hide: "narrow", cell: (offset) => count(offset.last_offset) },
  { key: "lag", label: "Lag", number: true, sortable: true, width: "110", narrow: "72", cell: (offset) => count(offset.lag) },
  { key: "member", label: "Member", width: "24%", hide: "middle", cell: (offset) => html`<span class="mono small">${offset.member ?? "–"}</span>` },
];

const MEMBER_COLUMNS: Column<GroupMember>[] = [
  { key: "client_id", label: "Client", cell: (member) => html`<b>${member.client_id}</b>` },
  { key: "host", label: "Host", width: "140", cell: (member) => html`<span class="mono">${member.host.replace(/^\//, "")}</span>` },
  {
    key: "partitions",
    label: "Partitions",
    number: true,
    width: "110",
    cell: (member) => html`<span tabindex="0" data-tip=${member.partitions.map((assigned) => `${assigned.topic}-${assigned.partition}`).join(", ") || "none"}>${member.partitions.length}</span>`,
  },
  { key: "instance_id", label: "Instance", width: "140", hide: "middle", cell: (member) => member.instance_id ?? "–", tip: "A static member keeps its partitions over a restart" },
  { key: "id", label: "Member", width: "28%", hide: "middle", cell: (member) => html`<span class="mono small">${member.id}</span>` },
];
