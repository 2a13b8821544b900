/** The command palette: pages, topics, groups and actions from anywhere, by keyboard. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { get } from "../core/api.js";
import { Part } from "../core/part.js";
import { navigate } from "../core/router.js";
import { hasFeature } from "../core/session.js";
import { toggleTheme } from "../core/theme.js";
import type { Connector, Group, Page, Subject, Topic } from "../core/types.js";
import { SECTIONS } from "../navigation.js";
import { icon, type IconName } from "./icons.js";

const SEARCH_DELAY_MS = 120;
const FOUND_OF_EACH = 6;

interface Choice {
  icon: IconName;
  label: string;
  kind: string;
  act: () => void;
}

@customElement("o-palette")
export class Palette extends Part {
  @state() private text = "";
  @state() private destinations: Choice[] = [];
  @state() private active = 0;
  private timer = 0;
  private aborter: AbortController | undefined;

  override connectedCallback(): void {
    super.connectedCallback();
    document.addEventListener("keydown", this.onGlobalKey);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    document.removeEventListener("keydown", this.onGlobalKey);
  }

  open(): void {
    this.text = "";
    this.destinations = [];
    this.active = 0;
    const dialog = this.querySelector("dialog")!;
    if (!dialog.open) dialog.showModal();
  }

  private get choices(): Choice[] {
    const wanted = this.text.toLowerCase();
    return [...fixedChoices().filter((choice) => choice.label.toLowerCase().includes(wanted)), ...this.destinations];
  }

  override render(): TemplateResult {
    const choices = this.choices;
    return html`<dialog class="palette" aria-label="Search" @click=${this.onBackdrop}>
      <div class="palette-input">
        ${icon("search")}
        <input
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant=${choices.length ? `choice-${this.active}` : nothing}
          placeholder="A page, topic, group, schema or connector"
          spellcheck="false"
          autocomplete="off"
          .value=${this.text}
          @input=${this.onInput}
          @keydown=${this.onKey}
        />
        <kbd>Esc</kbd>
      </div>
      <ul id="palette-list" role="listbox" class="plain">
        ${choices.map((choice, index) => this.row(choice, index))}
        ${choices.length ? nothing : html`<li class="faint none">Nothing matches.</li>`}
      </ul>
    </dialog>`;
  }

  private row(choice: Choice, index: number): TemplateResult {
    return html`<li
      id="choice-${index}"
      role="option"
      aria-selected=${index === this.active}
      @click=${() => this.choose(choice)}
      @pointermove=${() => (this.active = index)}
    >
      ${icon(choice.icon)}<span class="break">${choice.label}</span><span class="faint small">${choice.kind}</span>
    </li>`;
  }

  private onInput(event: Event): void {
    this.text = (event.target as HTMLInputElement).value;
    this.active = 0;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.search(), SEARCH_DELAY_MS);
  }

  private async search(): Promise<void> {
    this.aborter?.abort();
    const aborter = (this.aborter = new AbortController());
    if (!this.text) {
      this.destinations = [];
      return;
    }
    const query = { filter: this.text, size: FOUND_OF_EACH, page: 1 };
    const lists = await Promise.allSettled([
      get<Page<Topic>>("/topics", { ...query, internal: true }, aborter.signal),
      get<Page<Group>>("/groups", query, aborter.signal),
      hasFeature("registry") ? get<Page<Subject>>("/schemas", query, aborter.signal) : Promise.reject(),
      hasFeature("connect") ? get<Page<Connector>>("/connectors", query, aborter.signal) : Promise.reject(),
    ]);
    if (aborter.signal.aborted) return;
    const [topics, groups, schemas, connectors] = lists;
    this.destinations = [
      ...items(topics).map((topic) => destination("topic", topic.name, "topic", `/topics/${encodeURIComponent(topic.name)}`)),
      ...items(groups).map((group) => destination("group", group.id, "group", `/groups/${encodeURIComponent(group.id)}`)),
      ...items(schemas).map((schema) =>
        destination("schema", schema.subject, "schema", `/schemas/${encodeURIComponent(schema.subject)}`),
      ),
      ...items(connectors).map((connector) => destination("connector", connector.name, "connector", `/connectors/${encodeURIComponent(connector.name)}`)),
    ];
  }

  private onKey(event: KeyboardEvent): void {
    const choices = this.choices;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && choices.length) {
      event.preventDefault();
      this.active = (this.active + step + choices.length) % choices.length;
      void this.updateComplete.then(() => this.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }));
    } else if (event.key === "Enter" && choices[this.active]) {
      event.preventDefault();
      this.choose(choices[this.active]!);
    }
  }

  private choose(choice: Choice): void {
    this.querySelector("dialog")!.close();
    choice.act();
  }

  private onBackdrop(event: MouseEvent): void {
    if (event.target === this.querySelector("dialog")) this.querySelector("dialog")!.close();
  }

  private onGlobalKey = (event: KeyboardEvent): void => {
    const isTyping = (event.target as Element).matches?.("input, textarea, select, [contenteditable]");
    const isSlash = event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey;
    const isCtrlK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
    if (!isSlash && !isCtrlK) return;
    event.preventDefault();
    this.open();
  };
}

function items<Row>(settled: PromiseSettledResult<Page<Row>>): Row[] {
  return settled.status === "fulfilled" ? settled.value.items : [];
}

function destination(name: IconName, label: string, kind: string, address: string): Choice {
  return { icon: name, label, kind, act: () => navigate(address) };
}

function fixedChoices(): Choice[] {
  const pages = SECTIONS.flatMap((section) => section.pages);
  return [
    ...pages.map((page) => destination(page.icon, page.label, "page", page.path)),
    destination("plus", "Create a topic", "action", "/topics?create=1"),
    { icon: "moon", label: "Switch between light and dark", kind: "action", act: toggleTheme },
  ];
}
