/** The overview: health, live throughput and lag, the busiest topics and the groups that lag most. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { get } from "../core/api.js";
import { brief, byteRate, bytes, count, plural, rate } from "../core/format.js";
import { live, LiveUpdates } from "../core/live.js";
import { Part } from "../core/part.js";
import { Resource } from "../core/resource.js";
import type { LivePoint, Overview } from "../core/types.js";
import { badge, card, copyable, figure, pageHead, term } from "../parts/bits.js";
import "../parts/chart.js";
import type { Series } from "../parts/chart.js";
import { icon } from "../parts/icons.js";
import { empty } from "../parts/states.js";

const HEALTH = { ok: "All is well", warning: "Needs attention", critical: "Something is broken" } as const;
const TONE = { ok: "good", warning: "warn", critical: "bad" } as const;

const SILENCE = empty({ icon: "warning", title: "No node answers", text: "The figures come back with the first node." });

@customElement("page-overview")
export class OverviewPage extends Part {
  private overview = new Resource<Overview>(this, (signal) => get("/overview", {}, signal), { everySeconds: 10, followsHealth: true });

  constructor() {
    super();
    new LiveUpdates(this);
  }

  override render(): TemplateResult {
    return html`${pageHead({
      title: "Overview",
      lead: "What the cluster does right now.",
      badges: this.overview.value ? this.health(this.overview.value) : nothing,
    })}
    ${this.overview.render((overview) => html`${this.findings(overview)}${this.figures(overview)}`)}
    ${this.charts()}
    <div class="columns">${this.busyTopics()}${this.laggingGroups()}</div>`;
  }

  private health(overview: Overview): TemplateResult {
    if (live.latest?.health === "unreachable") return badge("No node answers", "bad");
    const state = overview.health.state;
    return badge(HEALTH[state], TONE[state]);
  }

  private findings(overview: Overview): unknown {
    if (!overview.health.findings.length) return nothing;
    return html`<ul class="plain findings">
      ${overview.health.findings.map(
        (finding) => html`<li class="notice ${finding.severity === "critical" ? "bad" : "warn"}">
          ${icon("warning")}
          <div>${finding.title}</div>
          ${finding.link ? html`<a class="button" href=${finding.link}>Show</a>` : nothing}
        </li>`,
      )}
    </ul>`;
  }

  private figures(overview: Overview): TemplateResult {
    const { total, alive } = overview.brokers;
    const isHurt = overview.under_replicated_partitions > 0;
    return html`<div class="figures">
      ${figure("Brokers", html`${alive}<small> of ${total}</small>`, {
        href: "/brokers",
        tone: alive < total ? "bad" : "plain",
        note: overview.controller === null ? "no controller" : `controller is ${overview.controller}`,
      })}
      ${figure("Topics", count(overview.topics), { href: "/topics", note: plural(overview.partitions, "partition") })}
      ${figure("Groups", count(overview.groups), { href: "/groups", note: `lag ${brief(live.latest?.lag)}` })}
      ${figure(term("under-replicated", "Under-replicated"), count(overview.under_replicated_partitions), {
        tone: isHurt ? "warn" : "plain",
        note: `${count(overview.offline_partitions)} offline`,
      })}
      ${figure("Stored", bytes(overview.bytes), { note: "logs of all replicas" })}
    </div>`;
  }

  private charts(): TemplateResult {
    const points = live.points.toArray();
    const times = points.map((point) => point.time / 1000);
    const series = (label: string, colour: string, read: (point: LivePoint) => number | null | undefined): Series => ({
      label,
      colour,
      values: points.map((point) => read(point) ?? null),
    });
    return html`<div class="columns thirds">
      ${card(
        "Records",
        html`<o-chart .times=${times} .format=${rate} .series=${[series("written", "--series-1", (point) => point.records_in_per_second)]}></o-chart>`,
      )}
      ${points.every((point) => (point.bytes_in_per_second ?? null) === null)
        ? nothing
        : card(
            "Bytes",
            html`<o-chart
              in-bytes
              .times=${times}
              .format=${byteRate}
              .series=${[
                series("in", "--series-1", (point) => point.bytes_in_per_second),
                series("out", "--series-2", (point) => point.bytes_out_per_second),
              ]}
            ></o-chart>`,
          )}
      ${card(
        term("lag", "Lag"),
        html`<o-chart .times=${times} .format=${brief} .series=${[series("all groups", "--series-3", (point) => point.lag)]}></o-chart>`,
      )}
    </div>`;
  }

  private busyTopics(): TemplateResult {
    if (live.latest?.health === "unreachable") return card("Busiest topics", SILENCE);
    const topics = live.latest?.topics ?? [];
    const most = Math.max(1, ...topics.map((topic) => topic.records_in_per_second));
    const body = topics.length
      ? html`<ul class="plain bars">
          ${topics.slice(0, 8).map(
            (topic) => html`<li>
              <a class="break" href="/topics/${encodeURIComponent(topic.name)}">${topic.name}</a>
              <span>${rate(topic.records_in_per_second)}</span>
              <progress max=${most} .value=${topic.records_in_per_second}></progress>
            </li>`,
          )}
        </ul>`
      : empty({ icon: "topic", title: "Nothing is being written", text: "Write a first record from a terminal:", action: copyable("echo hello | ottla produce greetings") });
    return card("Busiest topics", body, { lead: "Records written in the last second" });
  }

  private laggingGroups(): TemplateResult {
    if (live.latest?.health === "unreachable") return card("Groups that lag", SILENCE);
    const groups = (live.latest?.groups ?? []).filter((group) => (group.lag ?? 0) > 0);
    const most = Math.max(1, ...groups.map((group) => group.lag ?? 0));
    const body = groups.length
      ? html`<ul class="plain bars lag">
          ${groups.slice(0, 8).map(
            (group) => html`<li>
              <a class="break" href="/groups/${encodeURIComponent(group.id)}">${group.id}</a>
              <span>${brief(group.lag)}</span>
              <progress max=${most} .value=${group.lag ?? 0}></progress>
            </li>`,
          )}
        </ul>`
      : empty({ icon: "group", title: "No group lags", text: "Every group has read all records of its topics." });
    return card("Groups that lag", body, { lead: "Records that are written but not yet read" });
  }
}
