/** How groups are shown on several pages. */

import type { TemplateResult } from "lit";
import { badge, type Tone } from "../parts/bits.js";

const STATES: Record<string, [Tone, string]> = {
  Stable: ["good", "Members read their partitions."],
  Empty: ["plain", "No members, but committed offsets are kept."],
  Dead: ["bad", "The group no longer exists."],
  PreparingRebalance: ["warn", "Members join or leave; partitions are about to be assigned again."],
  CompletingRebalance: ["warn", "Partitions are being assigned."],
  Assigning: ["warn", "Partitions are being assigned."],
  Reconciling: ["warn", "Members give up and take over partitions."],
  NotReady: ["warn", "The group waits for its internal topics."],
};

export function stateBadge(state: string): TemplateResult {
  const [tone, meaning] = STATES[state] ?? ["plain", ""];
  return badge(state, tone, meaning || undefined);
}

const KINDS: Record<string, string> = {
  classic: "Members agree on partitions through a leader among them (the older protocol).",
  consumer: "The broker assigns partitions to members (the newer protocol, KIP-848).",
  share: "Members share partitions record by record, like a queue (KIP-932).",
  streams: "An application of Kafka Streams whose tasks the broker assigns (KIP-1071).",
};

export function kindBadge(kind: string): TemplateResult {
  return badge(kind, kind === "classic" ? "plain" : "info", KINDS[kind]);
}
