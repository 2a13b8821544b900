/** Replicas on brokers before and after a plan: a bar for each broker, and the partitions that move. */

import { html, nothing, type TemplateResult } from "lit";
import { bytes, count } from "../core/format.js";
import type { Layout } from "../core/types.js";

const MOVES_SHOWN = 40;

export function beforeAndAfter(before: Layout, after: Layout): TemplateResult {
  const most = Math.max(1, ...before.brokers.map((broker) => broker.replicas), ...after.brokers.map((broker) => broker.replicas));
  return html`<div class="layouts">${half("Before", before, most)}${half("After", after, most)}</div>
    ${moves(before, after)}`;
}

function half(title: string, layout: Layout, most: number): TemplateResult {
  return html`<section>
    <h3>${title}</h3>
    <ul class="plain layout-bars">
      ${layout.brokers.map(
        (broker) => html`<li>
          <span>Broker ${broker.id}</span>
          <svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="${broker.replicas} replicas, leads ${broker.leaders}">
            <rect class="all" width=${(100 * broker.replicas) / most} height="10" rx="1" />
            <rect class="led" width=${(100 * broker.leaders) / most} height="10" rx="1" />
          </svg>
          <span class="soft small">${count(broker.replicas)}, leads ${count(broker.leaders)}, ${bytes(broker.bytes)}</span>
        </li>`,
      )}
    </ul>
  </section>`;
}

function moves(before: Layout, after: Layout): unknown {
  const earlier = new Map(before.partitions.map((partition) => [`${partition.topic}-${partition.partition}`, partition.replicas]));
  const moved = after.partitions.filter((partition) => String(earlier.get(`${partition.topic}-${partition.partition}`)) !== String(partition.replicas));
  if (!moved.length) return html`<p class="soft">No partition moves.</p>`;
  return html`<table class="preview">
      <thead>
        <tr><th>Partition</th><th>Brokers before</th><th>Brokers after</th></tr>
      </thead>
      <tbody>
        ${moved.slice(0, MOVES_SHOWN).map((partition) => {
          const from = earlier.get(`${partition.topic}-${partition.partition}`) ?? [];
          return html`<tr>
            <td class="break">${partition.topic}-${partition.partition}</td>
            <td>${chips(from, partition.replicas, "leaves")}</td>
            <td>${chips(partition.replicas, from, "joins")}</td>
          </tr>`;
        })}
      </tbody>
    </table>
    ${moved.length > MOVES_SHOWN ? html`<p class="faint small">and ${count(moved.length - MOVES_SHOWN)} more</p>` : nothing}`;
}

function chips(own: number[], other: number[], mark: string): TemplateResult {
  return html`<span class="replicas">${own.map((id) => html`<span class="replica ${other.includes(id) ? "" : mark}">${id}</span>`)}</span>`;
}
