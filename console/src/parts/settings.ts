/** Settings of a topic or a broker: value, where it comes from, what it means, and how to change it. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { Part } from "../core/part.js";
import { mayWrite } from "../core/session.js";
import type { Setting } from "../core/types.js";
import { badge } from "./bits.js";
import { propose } from "./change.js";
import { localRows } from "./rows.js";
import "./table.js";
import type { Column } from "./table.js";

const SOURCES: Record<string, string> = {
  DYNAMIC_TOPIC_CONFIG: "this topic",
  DYNAMIC_BROKER_CONFIG: "this broker",
  DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
  STATIC_BROKER_CONFIG: "properties file",
  DEFAULT_CONFIG: "default",
  GROUP_CONFIG: "this group",
};

@customElement("o-settings")
export class Settings extends Part {
  @property({ attribute: false }) settings: Setting[] = [];
  /** The path of the API that changes them, such as "/topics/orders/settings". */
  @property() path = "";
  /** Whose settings they are, such as "topic orders". */
  @property() owner = "";
  @state() private isChangedOnly = false;

  override render(): TemplateResult {
    const shown = this.isChangedOnly ? this.settings.filter((setting) => !setting.is_default) : this.settings;
    return html`<o-table
      .columns=${COLUMNS}
      .source=${this.rowsOf(shown)}
      .open=${(setting: Setting) => void this.edit(setting)}
      .tools=${this.tools()}
      .whenEmpty=${{ title: "No setting differs from its default" }}
      filterable
      placeholder="Filter settings"
      label="Settings of ${this.owner}"
      sort="name"
    ></o-table>`;
  }

  private rowsCache: { from: Setting[]; source: ReturnType<typeof localRows<Setting>> } | undefined;

  /** The same source for the same settings, so that the table does not read again with every update. */
  private rowsOf(settings: Setting[]) {
    const isSame =
      this.rowsCache?.from.length === settings.length && settings.every((setting, index) => setting === this.rowsCache!.from[index]);
    if (!isSame) {
      const source = localRows(settings, (setting) => `${setting.name} ${setting.value} ${setting.documentation}`);
      this.rowsCache = { from: settings, source };
    }
    return this.rowsCache!.source;
  }

  private tools(): TemplateResult {
    return html`<label class="check">
      <input
        type="checkbox"
        .checked=${this.isChangedOnly}
        @change=${(event: Event) => (this.isChangedOnly = (event.target as HTMLInputElement).checked)}
      />
      <span>Changed only</span>
    </label>`;
  }

  private async edit(setting: Setting): Promise<void> {
    const isLocked = setting.is_read_only || !mayWrite();
    const outcome = await propose({
      title: setting.name,
      lead: about(setting, isLocked),
      method: "PUT",
      path: this.path,
      verb: "Apply",
      fields: isLocked
        ? []
        : [
            {
              name: "action",
              label: "Action",
              kind: "select",
              required: true,
              options: [
                { value: "set", label: "Set a value" },
                { value: "unset", label: "Back to the default" },
              ],
            },
            {
              name: "value",
              label: "Value",
              required: true,
              value: setting.value ?? "",
              kind: setting.is_sensitive ? "password" : "text",
              when: (values) => values.action === "set",
            },
          ],
      body: (values) =>
        values.action === "unset" ? { unset: [setting.name] } : { set: { [setting.name]: values.value } },
      readOnly: isLocked,
    });
    if (outcome) this.dispatchEvent(new Event("changed", { bubbles: true }));
  }
}

function about(setting: Setting, isLocked: boolean): TemplateResult {
  return html`${setting.documentation ?? "There is no documentation of this setting."}
    <span class="block mono small break">Now ${setting.is_sensitive ? "hidden" : (setting.value ?? "not set")}</span>
    ${setting.synonyms.length > 1
      ? html`<span class="block small"
          >${setting.synonyms.map(
            (synonym) => html`<span class="block"><code>${synonym.name}</code> = <code>${synonym.value ?? "…"}</code>, ${sourceName(synonym.source)}</span>`,
          )}</span
        >`
      : nothing}
    ${isLocked && setting.is_read_only
      ? html`<span class="block">It is read when the node starts: change it in the properties file.</span>`
      : nothing}`;
}

export function sourceName(source: string): string {
  return SOURCES[source] ?? source.toLowerCase().replaceAll("_", " ");
}

const COLUMNS: Column<Setting>[] = [
  {
    key: "name",
    label: "Setting",
    sortable: true,
    width: "38%",
    narrow: "58%",
    cell: (setting) => html`<span class="mono" data-tip=${setting.documentation ?? nothing}>${setting.name}</span>`,
  },
  {
    key: "value",
    label: "Value",
    cell: (setting) => html`<span class="mono">${setting.is_sensitive ? "••••••" : (setting.value ?? "")}</span>`,
  },
  {
    key: "source",
    label: "Set by",
    sortable: true,
    width: "150",
    hide: "narrow",
    cell: (setting) => (setting.is_default ? html`<span class="faint">default</span>` : badge(sourceName(setting.source), "info")),
  },
];

