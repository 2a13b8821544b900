/** Addresses of pages. The state of a page is in its address, so that it can be shared and reloaded. */

import type { TemplateResult } from "lit";

export interface Place {
  path: string;
  params: Record<string, string>;
  query: URLSearchParams;
}

export interface Route {
  /** "/topics/:name": a segment with a colon matches any text. */
  pattern: string;
  title: (place: Place) => string;
  show: (place: Place) => TemplateResult;
}

const MOVED = "ottla-moved";

export function navigate(address: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  window.dispatchEvent(new Event(MOVED));
}

/** Writes into the query without a new entry in the history, and without showing the page again. */
export function rememberInAddress(changed: Record<string, string | null>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changed)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
}

export function onMove(listener: () => void): () => void {
  window.addEventListener(MOVED, listener);
  window.addEventListener("popstate", listener);
  return () => {
    window.removeEventListener(MOVED, listener);
    window.removeEventListener("popstate", listener);
  };
}

/** Lets plain links move within the console without loading the page again. */
export function followLinks(): void {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element).closest?.("a[href]") as HTMLAnchorElement | null;
    const isOurs = link && link.origin === location.origin && !link.pathname.startsWith("/api/");
    if (!isOurs || link.target || link.hasAttribute("download")) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}

export function find(routes: readonly Route[]): { route: Route; place: Place } | null {
  for (const route of routes) {
    const params = match(route.pattern, location.pathname);
    if (params) return { route, place: { path: location.pathname, params, query: new URLSearchParams(location.search) } };
  }
  return null;
}

function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const actual = path.replace(/\/+$/, "").split("/");
  if (path === "/") actual.push("");
  if (wanted.length !== actual.length) return null;
  const params: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    if (segment.startsWith(":")) params[segment.slice(1)] = decoded(actual[index]!);
    else if (segment !== actual[index]) return null;
  }
  return params;
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
