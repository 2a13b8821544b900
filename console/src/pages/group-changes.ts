/** The changes of groups: reset of offsets with a preview, deletions. */

import { html, nothing } from "lit";
import { at } from "../core/api.js";
import { count } from "../core/format.js";
import type { GroupDetail, Outcome } from "../core/types.js";
import type { Change } from "../parts/change.js";
import { parseList, type Values } from "../parts/fields.js";

const PREVIEW_ROWS = 50;

export function offsetReset(group: GroupDetail): Change {
  const topics = [...new Set(group.offsets.map((offset) => offset.topic))];
  return {
    title: `Reset offsets of ${group.id}`,
    lead: "Moves the place where the group continues. Records are neither deleted nor changed.",
    method: "POST",
    path: at`/groups/${group.id}/reset`,
    verb: "Reset",
    done: "The offsets are set.",
    fields: [
      {
        name: "to",
        label: "Continue",
        kind: "select",
        required: true,
        options: [
          { value: "earliest", label: "at the oldest record: read everything again" },
          { value: "latest", label: "at the end: skip what is there" },
          { value: "timestamp", label: "at a time" },
          { value: "offset", label: "at an offset" },
          { value: "shift", label: "some records earlier or later" },
          { value: "group", label: "where another group is" },
        ],
      },
      { name: "topic", label: "Topic", kind: "select", options: [{ value: "", label: "All topics of the group" }, ...topics] },
      { name: "partitions", label: "Partitions", placeholder: "all, or 0, 1, 2", when: (values) => Boolean(values.topic) },
      { name: "timestamp", label: "Time", kind: "datetime-local", required: true, when: (values) => values.to === "timestamp" },
      { name: "offset", label: "Offset", kind: "number", required: true, when: (values) => values.to === "offset" },
      { name: "shift", label: "Records", kind: "number", required: true, placeholder: "-100", when: (values) => values.to === "shift", help: "Below zero: earlier, records are read again." },
      { name: "group", label: "Group", required: true, when: (values) => values.to === "group" },
    ],
    body: (values) => ({ to: values.to, ...target(values), ...scope(values) }),
    picture: offsetPreview,
  };
}

function target(values: Values): object {
  if (values.to === "timestamp") return { timestamp: new Date(values.timestamp!).getTime() };
  if (values.to === "offset") return { offset: Number(values.offset) };
  if (values.to === "shift") return { shift: Number(values.shift) };
  return values.to === "group" ? { group: values.group } : {};
}

function scope(values: Values): object {
  if (!values.topic) return {};
  const partitions = parseList(values.partitions ?? "").map((text) => ({ topic: values.topic, partition: Number(text) }));
  return partitions.length ? { partitions } : { topics: [values.topic] };
}

function offsetPreview(outcome: Outcome): unknown {
  if (!outcome.offsets?.length) return nothing;
  const rest = outcome.offsets.length - PREVIEW_ROWS;
  return html`<table class="preview">
      <thead>
        <tr>
          <th>Partition</th>
          <th class="number">Before</th>
          <th class="number">After</th>
          <th class="number">Lag then</th>
        </tr>
      </thead>
      <tbody>
        ${outcome.offsets.slice(0, PREVIEW_ROWS).map(
          (row) => html`<tr>
            <td class="break">${row.topic}-${row.partition}</td>
            <td class="number soft">${count(row.before)}</td>
            <td class="number"><b>${count(row.after)}</b></td>
            <td class="number">${count(row.lag_after)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    ${rest > 0 ? html`<p class="faint small">and ${count(rest)} more</p>` : nothing}`;
}

export function offsetDeletion(group: GroupDetail): Change {
  const topics = [...new Set(group.offsets.map((offset) => offset.topic))];
  return {
    title: `Delete offsets of ${group.id}`,
    lead: "The group forgets where it was in this topic. Its next consumer starts where auto.offset.reset says.",
    method: "POST",
    path: at`/groups/${group.id}/delete-offsets`,
    verb: "Delete offsets",
    danger: true,
    fields: [{ name: "topic", label: "Topic", kind: "select", required: true, options: topics }],
    body: (values) => ({ topics: [values.topic] }),
  };
}

export function groupDeletion(group: GroupDetail): Change {
  return {
    title: `Delete the group ${group.id}`,
    lead: "Its committed offsets are deleted. Records are not touched.",
    method: "DELETE",
    path: at`/groups/${group.id}`,
    verb: "Delete the group",
    danger: true,
    typed: group.id,
    done: "The group is deleted.",
  };
}
