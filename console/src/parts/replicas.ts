/** Replicas of a partition as chips: the leader is filled, one that lags is marked. */

import { html, type TemplateResult } from "lit";
import type { Partition } from "../core/types.js";

export function replicaChips(partition: Partition): TemplateResult {
  return html`<span class="replicas"
    >${partition.replicas.map((broker) => {
      const isOffline = partition.offline.includes(broker);
      const isInSync = partition.isr.includes(broker);
      const isLeader = broker === partition.leader;
      const kind = isOffline ? "offline" : !isInSync ? "behind" : isLeader ? "leader" : "";
      const meaning = isOffline ? "is offline" : !isInSync ? "is not in sync" : isLeader ? "is the leader" : "is in sync";
      return html`<span class="replica ${kind}" data-tip="The replica on broker ${broker} ${meaning}.">${broker}</span>`;
    })}</span
  >`;
}
