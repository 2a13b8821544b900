/** The list of groups, of every kind. */

import { html, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { get } from "../core/api.js";
import { count } from "../core/format.js";
import { Part } from "../core/part.js";
import type { Group, Page } from "../core/types.js";
import { copyable, pageHead, term } from "../parts/bits.js";
import "../parts/table.js";
import type { Column } from "../parts/table.js";
import { kindBadge, stateBadge } from "./group-bits.js";

const KINDS = ["", "classic", "consumer", "share", "streams"];

@customElement("page-groups")
export class GroupsPage extends Part {
  @state() private query: { kind: string } = { kind: "" };
  private source = (query: object, signal: AbortSignal) => get<Page<Group>>("/groups", { ...query }, signal);

  override render(): TemplateResult {
    return html`${pageHead({
        title: "Groups",
        lead: html`Consumers of a ${term("consumer group", "group")} share the partitions of topics. ${term("lag", "Lag")} is what they
          have not read yet.`,
      })}
      <o-table
        class="fill"
        label="Groups"
        sort="id"
        filterable
        addressed
        placeholder="Filter groups"
        refresh="10"
        .columns=${COLUMNS}
        .source=${this.source}
        .query=${this.query}
        .href=${(group: Group) => `/groups/${encodeURIComponent(group.id)}`}
        .tools=${this.tools()}
        .whenEmpty=${{
          icon: "group",
          title: "There are no groups yet",
          text: "A group appears when its first consumer joins:",
          action: copyable("ottla consume TOPIC --group my-group"),
        }}
      ></o-table>`;
  }

  private tools(): TemplateResult {
    return html`<select
      aria-label="Kind"
      @change=${(event: Event) => (this.query = { kind: (event.target as HTMLSelectElement).value })}
    >
      ${KINDS.map((kind) => html`<option value=${kind}>${kind || "Any kind"}</option>`)}
    </select>`;
  }
}

const COLUMNS: Column<Group>[] = [
  { key: "id", label: "Group", sortable: true },
  { key: "kind", label: "Kind", width: "120", hide: "narrow", cell: (group) => kindBadge(group.kind) },
  { key: "state", label: "State", width: "150", narrow: "88", sortable: true, cell: (group) => stateBadge(group.state) },
  { key: "members", label: "Members", number: true, width: "100", hide: "narrow", cell: (group) => count(group.members) },
  { key: "lag", label: "Lag", number: true, width: "130", narrow: "92", cell: (group) => count(group.lag) },
  { key: "coordinator", label: "Coordinator", number: true, width: "120", hide: "middle", tip: "The broker that keeps members and offsets of the group" },
];
