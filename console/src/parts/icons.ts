/** Small line icons, drawn on a grid of 20 by 20. */

import { svg, html, type TemplateResult } from "lit";

const SHAPES = {
  overview: svg`<path d="M3 12.5 7 8l3.5 3L17 4.5"/><path d="M3 16.5h14"/>`,
  broker: svg`<rect x="3" y="3.5" width="14" height="5.5" rx="1.5"/><rect x="3" y="11" width="14" height="5.5" rx="1.5"/><path d="M6 6.25h.01M6 13.75h.01"/>`,
  topic: svg`<path d="M3.5 5.5h13M3.5 10h13M3.5 14.5h8"/>`,
  schema: svg`<path d="M7 3.5c-2 0-2 1-2 3s0 2.5-2 3.5c2 1 2 1.5 2 3.5s0 3 2 3M13 3.5c2 0 2 1 2 3s0 2.5 2 3.5c-2 1-2 1.5-2 3.5s0 3-2 3"/>`,
  group: svg`<circle cx="7" cy="7" r="2.5"/><path d="M2.5 16c0-2.7 1.8-4.5 4.5-4.5s4.5 1.8 4.5 4.5M13 4.8a2.5 2.5 0 0 1 0 4.5M14 11.8c2.2.4 3.5 2 3.5 4.2"/>`,
  transaction: svg`<path d="M4 7h11l-3-3M16 13H5l3 3"/>`,
  connector: svg`<path d="M7 3v4M13 3v4M5 7h10v3a5 5 0 0 1-10 0zM10 15v2.5"/>`,
  mirror: svg`<rect x="2.5" y="5" width="6" height="10" rx="1.5"/><rect x="11.5" y="5" width="6" height="10" rx="1.5"/><path d="M8.5 10h3"/>`,
  rights: svg`<path d="M10 2.5 4 5v4.5c0 4 2.5 6.5 6 8 3.5-1.5 6-4 6-8V5z"/>`,
  audit: svg`<path d="M5 3h7l3.5 3.5V17H5z"/><path d="M8 10h5M8 13h5"/>`,
  balance: svg`<path d="M10 3v13M6 16.5h8M4 6h12M4 6l-2 5h4zM16 6l-2 5h4z"/>`,
  doctor: svg`<path d="M3 10h3l2-5 3.5 10 2-5H17"/>`,
  search: svg`<circle cx="9" cy="9" r="5.5"/><path d="m13.2 13.2 3.8 3.8"/>`,
  menu: svg`<path d="M3.5 5.5h13M3.5 10h13M3.5 14.5h13"/>`,
  sun: svg`<circle cx="10" cy="10" r="3.2"/><path d="M10 2.5v2M10 15.5v2M2.5 10h2M15.5 10h2M4.7 4.7l1.4 1.4M13.9 13.9l1.4 1.4M4.7 15.3l1.4-1.4M13.9 6.1l1.4-1.4"/>`,
  moon: svg`<path d="M16.5 12.2A7 7 0 0 1 7.8 3.5a7 7 0 1 0 8.7 8.7z"/>`,
  copy: svg`<rect x="7" y="7" width="9.5" height="9.5" rx="1.5"/><path d="M13 7V5a1.5 1.5 0 0 0-1.5-1.5H5A1.5 1.5 0 0 0 3.5 5v6.5A1.5 1.5 0 0 0 5 13h2"/>`,
  check: svg`<path d="m4 10.5 4 4 8-9"/>`,
  close: svg`<path d="m5 5 10 10M15 5 5 15"/>`,
  plus: svg`<path d="M10 4v12M4 10h12"/>`,
  refresh: svg`<path d="M16 10a6 6 0 1 1-1.8-4.3M16.5 3v3.5H13"/>`,
  play: svg`<path d="M6 4v12l10-6z"/>`,
  pause: svg`<path d="M7 4v12M13 4v12"/>`,
  stop: svg`<rect x="5" y="5" width="10" height="10" rx="1"/>`,
  download: svg`<path d="M10 3v10M6 9.5l4 4 4-4M4 16.5h12"/>`,
  trash: svg`<path d="M4 6h12M8 6V4h4v2M5.5 6l.7 10.5h7.6L14.5 6"/>`,
  edit: svg`<path d="M4 16h3l9-9-3-3-9 9z"/>`,
  send: svg`<path d="m3 10 14-6.5L12 17l-2.5-5z"/>`,
  left: svg`<path d="m12 5-5 5 5 5"/>`,
  right: svg`<path d="m8 5 5 5-5 5"/>`,
  user: svg`<circle cx="10" cy="7" r="3"/><path d="M4 16.5c0-3.3 2.5-5 6-5s6 1.7 6 5"/>`,
  warning: svg`<path d="M10 3.5 2.5 16.5h15zM10 8.5v3.5M10 14.2h.01"/>`,
  help: svg`<circle cx="10" cy="10" r="7"/><path d="M8 8a2 2 0 1 1 2.8 1.9c-.6.3-.8.7-.8 1.4M10 13.7h.01"/>`,
};

export type IconName = keyof typeof SHAPES;

export function icon(name: IconName): TemplateResult {
  return html`<svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">${SHAPES[name]}</svg>`;
}
