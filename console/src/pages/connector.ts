/** One connector: tasks with their last error, topics, progress, configuration. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { at, get } from "../core/api.js";
import { Part } from "../core/part.js";
import { Resource } from "../core/resource.js";
import { navigate } from "../core/router.js";
import { mayWrite } from "../core/session.js";
import type { ConnectorDetail } from "../core/types.js";
import { badge, button, card, facts, pageHead } from "../parts/bits.js";
import { propose } from "../parts/change.js";
import { parsePairs } from "../parts/fields.js";
import { act, connectorState, type ConnectorAction } from "./connectors.js";

@customElement("page-connector")
export class ConnectorPage extends Part {
  @property() name = "";
  private detail = new Resource<ConnectorDetail>(this, (signal) => get(at`/connectors/${this.name}`, {}, signal), { everySeconds: 5 });

  override render(): TemplateResult {
    return this.detail.render(
      (connector) => html`${this.head(connector)}
        ${connector.trace ? card("Last error", html`<pre class="content error" tabindex="0">${connector.trace}</pre>`) : nothing}
        <div class="columns">
          ${card("Tasks", this.tasks(connector), { lead: "Each task copies a part of the data." })}
          ${card("Progress", this.progress(connector), { lead: "Where each source or partition has been copied to." })}
        </div>
        ${card("Configuration", facts(Object.entries(connector.config).map(([name, value]) => [html`<code>${name}</code>`, html`<code class="break">${value}</code>`])))}`,
      pageHead({ back: { href: "/connectors", label: "Connectors" }, title: this.name }),
    );
  }

  private head(connector: ConnectorDetail): TemplateResult {
    const isRunning = connector.state === "RUNNING";
    return pageHead({
      back: { href: "/connectors", label: "Connectors" },
      title: connector.name,
      badges: html`${connectorState(connector.state)} ${failedTasks(connector)}`,
      lead: html`${connector.type}, <span class="mono">${connector.class}</span>`,
      actions: mayWrite()
        ? html`${isRunning
            ? button("Pause…", () => void this.act("pause"), { icon: "pause" })
            : button("Resume…", () => void this.act("resume"), { icon: "play" })}
          ${button("Restart…", () => void this.act("restart"), { icon: "refresh" })} ${button("Stop…", () => void this.act("stop"), { icon: "stop" })}
          ${button("Configure…", () => void this.configure(connector), { icon: "edit" })}
          ${button("Delete…", () => void this.deleteConnector(), { icon: "trash", tone: "danger" })}`
        : nothing,
    });
  }

  private tasks(connector: ConnectorDetail): TemplateResult {
    return html`<ul class="plain tasks">
      ${connector.task_list.map(
        (task) => html`<li>
          <b>Task ${task.id}</b> ${connectorState(task.state)} <span class="faint small">${task.worker}</span>
          ${mayWrite() && task.state === "FAILED" ? button("Restart…", () => void this.restartTask(task.id), { tone: "quiet" }) : nothing}
          ${task.trace ? html`<pre class="content error" tabindex="0">${task.trace}</pre>` : nothing}
        </li>`,
      )}
    </ul>`;
  }

  private progress(connector: ConnectorDetail): TemplateResult {
    const topics = connector.topics.map((topic) => html`<a href="/topics/${encodeURIComponent(topic)}">${topic}</a> `);
    return html`${facts([["Topics", topics.length ? topics : "none yet"]])}
    ${connector.offsets.length
      ? html`<pre class="content" tabindex="0">${connector.offsets.map((offset) => JSON.stringify(offset)).join("\n")}</pre>`
      : html`<p class="faint">Nothing has been copied yet.</p>`}`;
  }

  private async act(action: ConnectorAction): Promise<void> {
    if (await act(this.name, action)) await this.detail.reload();
  }

  private async restartTask(task: number): Promise<void> {
    const path = at`/connectors/${this.name}/tasks/${task}/restart`;
    if (await propose({ title: `Restart task ${task} of ${this.name}`, method: "POST", path, verb: "Restart" })) await this.detail.reload();
  }

  private async configure(connector: ConnectorDetail): Promise<void> {
    const text = Object.entries(connector.config).map((pair) => pair.join("=")).join("\n");
    const outcome = await propose({
      title: `Configure ${this.name}`,
      lead: "The connector is restarted with the new configuration.",
      method: "PUT",
      path: at`/connectors/${this.name}`,
      verb: "Apply",
      fields: [{ name: "config", label: "Configuration", kind: "textarea", required: true, value: text }],
      body: (values) => ({ config: parsePairs(values.config ?? "") }),
    });
    if (outcome) await this.detail.reload();
  }

  private async deleteConnector(): Promise<void> {
    const outcome = await propose({
      title: `Delete ${this.name}`,
      lead: "Its tasks end. What it has copied stays.",
      method: "DELETE",
      path: at`/connectors/${this.name}`,
      verb: "Delete",
      danger: true,
      typed: this.name,
    });
    if (outcome) navigate("/connectors");
  }
}

/** A connector runs although its tasks have failed: both have to be seen. */
function failedTasks({ task_list: tasks }: ConnectorDetail): unknown {
  const failed = tasks.filter((task) => task.state === "FAILED").length;
  return failed ? badge(`${failed} of ${tasks.length} tasks failed`, "bad") : nothing;
}
