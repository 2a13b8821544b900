/** The changes of the balance: a plan, its stop and its resumption, and elections. */

import { html, nothing } from "lit";
import { count } from "../core/format.js";
import type { Outcome } from "../core/types.js";
import { badge, term } from "../parts/bits.js";
import type { Change } from "../parts/change.js";
import { parseList, type Values } from "../parts/fields.js";
import { beforeAndAfter } from "../parts/layout-picture.js";

export function layoutPicture(outcome: Outcome): unknown {
  return outcome.before && outcome.after ? beforeAndAfter(outcome.before, outcome.after) : nothing;
}

/** The goals that a plan was made for, where they are broken before or after it. */
function goalsAndLayout(outcome: Outcome): unknown {
  const broken = (outcome.goals ?? []).filter((goal) => goal.violations_before || goal.violations_after);
  if (!broken.length) return layoutPicture(outcome);
  return html`${layoutPicture(outcome)}
    <table class="preview">
      <thead>
        <tr><th>Goal</th><th class="number">Broken now</th><th class="number">After</th></tr>
      </thead>
      <tbody>
        ${broken.map(
          (goal) => html`<tr>
            <td>${goal.goal} ${goal.is_hard ? badge("must", "info", "A plan never breaks this goal on the way.") : nothing}</td>
            <td class="number">${count(goal.violations_before)}</td>
            <td class="number">${count(goal.violations_after)}</td>
          </tr>`,
        )}
      </tbody>
    </table>`;
}

/** Steps are taken back when producers wait this many times longer than before. */
const LATENCY_FACTOR = 2;

const GUARD = {
  name: "guard",
  label: "Watch producers",
  kind: "checkbox" as const,
  value: "true",
  help: "Takes a step back and stops when they have to wait twice as long as before.",
};

const factorOf = (values: Values) => (values.guard === "true" ? LATENCY_FACTOR : null);

export const BALANCING: Change = {
  title: "Balance the cluster",
  lead: "Plans the fewest moves that spread racks, disks, traffic, replicas and leaders evenly. They run in steps, in the background.",
  method: "POST",
  path: "/balance",
  verb: "Begin",
  done: "Balancing has begun.",
  fields: [
    { name: "drain", label: "Brokers to empty", placeholder: "none", help: "All replicas leave these brokers, for instance before one is taken away." },
    { name: "throttle", label: "At most, in MiB per second", kind: "number", step: "any", placeholder: "no limit", help: "Of each broker." },
    GUARD,
  ],
  body: (values) => ({
    drain: parseList(values.drain ?? "").map(Number),
    ...(values.throttle ? { throttle: Math.round(Number(values.throttle) * 2 ** 20) } : {}),
    latency_factor: factorOf(values),
  }),
  picture: goalsAndLayout,
};

export const RESUMPTION: Change = {
  title: "Resume balancing",
  method: "POST",
  path: "/balance/resume",
  verb: "Resume",
  done: "Balancing goes on.",
  fields: [GUARD],
  body: (values) => ({ latency_factor: factorOf(values) }),
};

export const STOP: Change = { title: "Stop balancing", method: "DELETE", path: "/balance", verb: "Stop", danger: true, done: "Balancing is stopped." };

export const ELECTION: Change = {
  title: "Elect preferred leaders",
  lead: html`Gives each partition back to its ${term("preferred leader")}, so that leaders are spread as planned.`,
  method: "POST",
  path: "/elections",
  verb: "Elect",
  body: () => ({ kind: "preferred", partitions: null }),
};
