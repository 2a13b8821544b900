/** Connectors and Spark pipelines. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { at, get } from "../core/api.js";
import { Part } from "../core/part.js";
import { hasFeature, mayWrite } from "../core/session.js";
import type { Connector, Page } from "../core/types.js";
import { badge, button, copyable, iconButton, pageHead, term, type Tone } from "../parts/bits.js";
import { propose } from "../parts/change.js";
import { parsePairs } from "../parts/fields.js";
import { notAvailable } from "../parts/states.js";
import "../parts/table.js";
import type { Column } from "../parts/table.js";

const TONES: Record<string, Tone> = { RUNNING: "good", PAUSED: "plain", STOPPED: "plain", FAILED: "bad", UNASSIGNED: "warn", RESTARTING: "warn" };

export function connectorState(state: string): TemplateResult {
  return badge(state.toLowerCase(), TONES[state] ?? "plain");
}

export type ConnectorAction = "pause" | "resume" | "stop" | "restart";

export function act(name: string, action: ConnectorAction) {
  const verbs = { pause: "Pause", resume: "Resume", stop: "Stop", restart: "Restart" };
  return propose({ title: `${verbs[action]} ${name}`, method: "POST", path: `${at`/connectors/${name}/`}${action}`, verb: verbs[action] });
}

@customElement("page-connectors")
export class ConnectorsPage extends Part {
  private source = (query: object, signal: AbortSignal) => get<Page<Connector>>("/connectors", { ...query }, signal);

  override render(): TemplateResult {
    const isThere = hasFeature("connect");
    return html`${pageHead({
      title: "Connectors",
      lead: html`A ${term("connector")} copies data between topics and another system. Pipelines on Spark run as connectors, too.`,
      actions: isThere && mayWrite() ? button("Create a connector", () => void this.create(), { icon: "plus", tone: "primary" }) : nothing,
    })}
    ${isThere ? this.table() : missing()}`;
  }

  private table(): TemplateResult {
    return html`<o-table
      class="fill"
      label="Connectors"
      sort="name"
      filterable
      addressed
      placeholder="Filter connectors"
      refresh="5"
      .columns=${this.columns()}
      .source=${this.source}
      .href=${(connector: Connector) => `/connectors/${encodeURIComponent(connector.name)}`}
      .whenEmpty=${{ icon: "connector", title: "There are no connectors yet", text: "Create one here, or from a terminal:", action: copyable("ottla connect create --help") }}
    ></o-table>`;
  }

  private columns(): Column<Connector>[] {
    return [
      { key: "name", label: "Connector", sortable: true },
      { key: "state", label: "State", width: "120", sortable: true, cell: (connector) => connectorState(connector.state) },
      { key: "type", label: "Kind", width: "90", hide: "narrow" },
      {
        key: "tasks",
        label: "Tasks",
        number: true,
        width: "130",
        cell: (connector) => (connector.failed_tasks ? badge(`${connector.failed_tasks} of ${connector.tasks} failed`, "bad") : connector.tasks),
      },
      { key: "class", label: "Class", width: "26%", hide: "middle", cell: (connector) => html`<span class="mono small">${connector.class.split(".").pop()}</span>` },
      {
        key: "action",
        label: "",
        width: "96",
        hide: "narrow",
        cell: (connector) =>
          mayWrite()
            ? html`<span class="row-actions">
                ${connector.state === "RUNNING"
                  ? iconButton("pause", "Pause", () => void this.act(connector.name, "pause"))
                  : iconButton("play", "Resume", () => void this.act(connector.name, "resume"))}
                ${iconButton("refresh", "Restart", () => void this.act(connector.name, "restart"))}
              </span>`
            : nothing,
      },
    ];
  }

  private async act(name: string, action: ConnectorAction): Promise<void> {
    if (await act(name, action)) this.querySelector("o-table")?.reload();
  }

  private async create(): Promise<void> {
    const outcome = await propose({
      title: "Create a connector",
      method: "POST",
      path: "/connectors",
      verb: "Create",
      fields: [
        { name: "name", label: "Name", required: true },
        { name: "config", label: "Configuration", kind: "textarea", required: true, placeholder: "connector.class=FileStreamSource\nfile=orders.txt\ntopic=orders" },
      ],
      body: (values) => ({ name: values.name, config: parsePairs(values.config ?? "") }),
    });
    if (outcome) this.querySelector("o-table")?.reload();
  }
}

function missing(): TemplateResult {
  return notAvailable(
    "connector",
    "This console knows no Connect workers",
    html`Start a worker, and tell the console its address: ${copyable("ottla console --connect http://localhost:8083")}`,
  );
}
