/** Mirroring flows: which cluster is copied to which, and whether copying is alive. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { get } from "../core/api.js";
import { duration, plural } from "../core/format.js";
import { Part } from "../core/part.js";
import { Resource } from "../core/resource.js";
import type { Mirror } from "../core/types.js";
import { badge, card, copyable, pageHead } from "../parts/bits.js";
import { icon } from "../parts/icons.js";
import { notAvailable } from "../parts/states.js";

/** A flow without a heartbeat for longer than this is shown as silent. */
const SILENT_AFTER_MS = 30_000;
const TOPICS_SHOWN = 12;

@customElement("page-mirrors")
export class MirrorsPage extends Part {
  private mirrors = new Resource<{ items: Mirror[] }>(this, (signal) => get("/mirrors", {}, signal), { everySeconds: 5 });

  override render(): TemplateResult {
    return html`${pageHead({ title: "Mirroring", lead: "A flow copies topics and groups of one cluster to another, continuously." })}
    ${this.mirrors.render(({ items }) => (items.length ? html`<div class="columns">${items.map(flowCard)}</div>` : noFlows()))}`;
  }
}

function flowCard(flow: Mirror): TemplateResult {
  const isSilent = flow.age_ms === null || flow.age_ms > SILENT_AFTER_MS;
  const beat = flow.age_ms === null ? "no heartbeat yet" : `heartbeat ${duration(flow.age_ms)} ago`;
  return card(
    html`<span class="flow">${flow.source}${icon("right")}${flow.target}</span> ${badge(isSilent ? "silent" : "alive", isSilent ? "warn" : "good")}`,
    html`<ul class="plain bars">
      ${flow.topics.slice(0, TOPICS_SHOWN).map(
        (topic) => html`<li><a class="break" href="/topics/${encodeURIComponent(topic.name)}">${topic.name}</a><span class="soft">${plural(topic.partitions, "partition")}</span></li>`,
      )}
    </ul>
    ${flow.topics.length > TOPICS_SHOWN
      ? html`<p class="block"><a href="/topics?filter=${encodeURIComponent(`${flow.source}.`)}">All ${flow.topics.length} topics</a></p>`
      : nothing}`,
    { lead: `${plural(flow.topics.length, "topic")}, ${beat}` },
  );
}

function noFlows(): TemplateResult {
  return notAvailable("mirror", "Nothing is mirrored to this cluster", html`A flow appears here with its first heartbeat: ${copyable("ottla mirror --help")}`);
}
