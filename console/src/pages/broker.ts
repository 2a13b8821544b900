/** One broker: its disks and its settings. */

import { html, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { at, get } from "../core/api.js";
import { bytes, count, plural } from "../core/format.js";
import { Part } from "../core/part.js";
import { Resource } from "../core/resource.js";
import type { BrokerDetail, LogDirectory } from "../core/types.js";
import { badge, card, figure, meter, pageHead } from "../parts/bits.js";
import "../parts/settings.js";
import { empty, failure } from "../parts/states.js";
import { ApiError } from "../core/api.js";
import { chosenTab, tabBar } from "../parts/tabs.js";

const TABS = [
  { id: "disks", label: "Disks" },
  { id: "settings", label: "Settings" },
];
/** A disk with less free space than this share is marked. */
const SPACE_LOW = 0.1;

@customElement("page-broker")
export class BrokerPage extends Part {
  @property() broker = "";
  @property() tab = "";
  private detail = new Resource<BrokerDetail>(this, (signal) => get(at`/brokers/${this.broker}`, {}, signal), { everySeconds: 10, followsHealth: true });

  override render(): TemplateResult {
    return this.detail.render((broker) => {
      const tab = chosenTab(TABS);
      return html`${pageHead({
          back: { href: "/brokers", label: "Brokers" },
          title: `Broker ${broker.id}`,
          lead: html`<span class="mono">${broker.host}:${broker.port}</span>${broker.rack ? `, rack ${broker.rack}` : ""}`,
          badges: html`${broker.is_alive ? badge("alive", "good") : badge("down", "bad")}
          ${broker.is_controller ? badge("controller", "info") : ""}`,
        })}
        <div class="figures">
          ${figure("Leads", count(broker.leaders), { note: "partitions" })}
          ${figure("Replicas", count(broker.replicas), { note: "of partitions" })}
          ${figure("Not in sync", count(broker.out_of_sync), { tone: broker.out_of_sync ? "warn" : "plain", note: "replicas" })}
          ${figure("Size", bytes(broker.bytes), { note: "of all its logs" })}
        </div>
        ${tabBar(TABS, tab)} ${tab === "disks" ? this.disks(broker) : this.settings(broker)}`;
    }, pageHead({ back: { href: "/brokers", label: "Brokers" }, title: `Broker ${this.broker}` }));
  }

  private disks(broker: BrokerDetail): TemplateResult {
    if (!broker.log_dirs) {
      const text = broker.is_alive ? "The broker did not tell its disks in time." : "The broker is not running. Its disks are shown again when it is back.";
      return html`<div class="card">${empty({ icon: "broker", title: "Its disks are not known", text })}</div>`;
    }
    return html`<div class="columns">${broker.log_dirs.map((directory) => diskCard(directory))}</div>`;
  }

  private settings(broker: BrokerDetail): TemplateResult {
    if (!broker.settings) {
      const text = "They are shown again when the broker answers.";
      return html`<div class="card">${empty({ icon: "broker", title: "Its settings are not known", text })}</div>`;
    }
    return html`<o-settings
      .settings=${broker.settings}
      path=${at`/brokers/${broker.id}/settings`}
      owner="broker ${broker.id}"
      @changed=${() => void this.detail.reload()}
    ></o-settings>`;
  }
}

function diskCard(directory: LogDirectory): TemplateResult {
  const total = directory.total_bytes;
  const free = directory.usable_bytes;
  const isKnown = total !== null && total > 0 && free !== null && free >= 0;
  const share = isKnown ? free / total : 1;
  return card(
    html`<span class="mono break">${directory.path}</span>`,
    html`${directory.error ? failure(new ApiError(0, "LOG_DIR", directory.error)) : ""}
      ${isKnown
        ? html`${meter(1 - share, share < SPACE_LOW ? "bad" : "plain")}
            <p class="soft small">${bytes(free)} free of ${bytes(total)}</p>`
        : html`<p class="soft small">The size of the disk is not known.</p>`}`,
    { lead: `${plural(directory.replicas, "replica")}, ${bytes(directory.bytes)}` },
  );
}
