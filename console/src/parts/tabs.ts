/** Tabs of a page. The chosen tab is part of the address. */

import { html, nothing, type TemplateResult } from "lit";
import { navigate } from "../core/router.js";

export interface Tab {
  id: string;
  label: string;
  count?: number | string | null;
}

/** The tab in the address, or the first one. */
export function chosenTab(tabs: Tab[]): string {
  const wanted = new URLSearchParams(location.search).get("tab");
  return tabs.find((tab) => tab.id === wanted)?.id ?? tabs[0]!.id;
}

export function tabBar(tabs: Tab[], chosen: string): TemplateResult {
  const address = (tab: Tab) => `${location.pathname}${tab === tabs[0] ? "" : `?tab=${tab.id}`}`;
  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const index = tabs.findIndex((tab) => tab.id === chosen);
    const bar = event.currentTarget as HTMLElement;
    navigate(address(tabs[(index + step + tabs.length) % tabs.length]!), { replace: true });
    requestAnimationFrame(() => bar.querySelector<HTMLElement>("[aria-selected=true]")?.focus());
  };
  return html`<div class="tabs" role="tablist" @keydown=${move}>
    ${tabs.map(
      (tab) => html`<a
        role="tab"
        href=${address(tab)}
        aria-selected=${tab.id === chosen}
        tabindex=${tab.id === chosen ? 0 : -1}
        >${tab.label}${tab.count === undefined || tab.count === null ? nothing : html`<span>${tab.count}</span>`}</a
      >`,
    )}
  </div>`;
}
