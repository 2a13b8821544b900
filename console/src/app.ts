/** The frame around all pages: sidebar, top bar, login. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { keyed } from "lit/directives/keyed.js";
import { ApiError, LOGGED_OUT, logOut, readSession } from "./core/api.js";
import { live, LiveUpdates } from "./core/live.js";
import { Part } from "./core/part.js";
import { find, onMove } from "./core/router.js";
import { isClusterKnown, session, setSession } from "./core/session.js";
import { isDark, onThemeChange, toggleTheme } from "./core/theme.js";
import type { Session } from "./core/types.js";
import { SECTIONS } from "./navigation.js";
import { iconButton, pageHead } from "./parts/bits.js";
import { icon } from "./parts/icons.js";
import "./parts/login.js";
import "./parts/palette.js";
import type { Palette } from "./parts/palette.js";
import { failure, skeleton } from "./parts/states.js";
import { ROUTES } from "./routes.js";

const LEARN_AFTER_MS = 30_000;
const LEARN_SOON_MS = 2_000;

@customElement("ottla-console")
export class Console extends Part {
  @state() private phase: "starting" | "failed" | "login" | "ready" = "starting";
  @state() private error: ApiError | null = null;
  @state() private isMenuOpen = false;
  private path = location.pathname;
  private learnedAt = 0;

  override connectedCallback(): void {
    super.connectedCallback();
    onMove(() => this.onMoved());
    onThemeChange(() => this.requestUpdate());
    window.addEventListener(LOGGED_OUT, () => (this.phase = "login"));
    void this.start();
  }

  private onMoved(): void {
    this.isMenuOpen = false;
    this.requestUpdate();
    const main = this.querySelector("main");
    main?.scrollTo(0, 0);
    // On a new page the keyboard begins at its top. A tab of the same page keeps the focus.
    if (location.pathname !== this.path) main?.focus({ preventScroll: true });
    this.path = location.pathname;
    if (this.phase === "ready") void this.learn();
  }

  /** What the cluster has may change: an audit is switched on, or the cluster answers for the first time. */
  private async learn(): Promise<void> {
    if (Date.now() - this.learnedAt < (isClusterKnown() ? LEARN_AFTER_MS : LEARN_SOON_MS)) return;
    this.learnedAt = Date.now();
    const now = await readSession().catch(() => null);
    if (now) this.enter(now);
  }

  private async start(): Promise<void> {
    this.phase = "starting";
    try {
      this.enter(await readSession());
    } catch (error) {
      this.error = error as ApiError;
      this.phase = "failed";
    }
  }

  private enter(entered: Session): void {
    setSession(entered);
    this.learnedAt = Date.now();
    this.requestUpdate();
    this.phase = entered.login.required && !entered.is_logged_in ? "login" : "ready";
  }

  override render(): TemplateResult {
    if (this.phase === "starting") return html`<div class="alone">${skeleton()}</div>`;
    if (this.phase === "failed") return html`<div class="alone">${failure(this.error!, () => void this.start())}</div>`;
    if (this.phase === "login") {
      return html`<o-login
        .login=${session()?.login}
        @entered=${(event: CustomEvent<Session>) => this.enter(event.detail)}
      ></o-login>`;
    }
    return this.frame();
  }

  private frame(): TemplateResult {
    const match = find(ROUTES);
    document.title = match ? `${match.route.title(match.place)} · Ottla` : "Ottla";
    const page = match
      ? keyed(`${match.place.path} ${isClusterKnown()}`, match.route.show(match.place))
      : pageHead({
          back: { href: "/", label: "Overview" },
          title: "There is no such page",
          lead: "The address may be wrong, or from another version of the console.",
        });
    return html`<a class="skip" href="#main" @click=${this.skip}>Skip to the page</a>
      <div class="frame ${this.isMenuOpen ? "menu-open" : ""}">
        ${this.sidebar()}
        <div class="veil" @click=${() => (this.isMenuOpen = false)}></div>
        <div class="stage">
          ${this.topbar()}
          <main id="main" tabindex="-1">${page}</main>
        </div>
      </div>
      <o-palette></o-palette>`;
  }

  private sidebar(): TemplateResult {
    const isHere = (path: string) => (path === "/" ? location.pathname === "/" : location.pathname.startsWith(path));
    return html`<nav class="sidebar" aria-label="Pages">
      <a class="brand" href="/">${icon("topic")}<span>Ottla</span></a>
      ${SECTIONS.map(
        (section) => html`<h2>${section.label}</h2>
          <ul class="plain">
            ${section.pages.map(
              (page) => html`<li>
                <a href=${page.path} aria-current=${isHere(page.path) ? "page" : nothing}
                  >${icon(page.icon)}<span>${page.label}</span></a
                >
              </li>`,
            )}
          </ul>`,
      )}
      <p class="faint small version">Ottla ${session()?.version ?? ""}</p>
    </nav>`;
  }

  private topbar(): TemplateResult {
    const current = session();
    return html`<header class="topbar">
      <span class="menu-button">${iconButton("menu", "Menu", () => (this.isMenuOpen = !this.isMenuOpen))}</span>
      <button type="button" class="search-button" @click=${() => this.querySelector<Palette>("o-palette")!.open()}>
        ${icon("search")}<span>Search</span><kbd>Ctrl K</kbd>
      </button>
      <span class="gap"></span>
      <o-pulse @answered=${() => void this.learn()}></o-pulse>
      ${iconButton(isDark() ? "sun" : "moon", isDark() ? "Light" : "Dark", toggleTheme)}
      ${current?.user
        ? html`<span class="who" data-tip="${current.role ?? "no role"}${current.rights.write ? "" : ", read-only"}" tabindex="0"
            >${icon("user")}<span>${current.user.replace(/^User:/, "")}</span></span
          >`
        : nothing}
      ${current?.is_logged_in && current.login.required
        ? html`<button class="button quiet" @click=${this.leave}>Log out</button>`
        : nothing}
    </header>`;
  }

  private async leave(): Promise<void> {
    await logOut().catch(() => undefined);
    await this.start();
  }

  private skip(event: Event): void {
    event.preventDefault();
    this.querySelector<HTMLElement>("main")!.focus();
  }
}

const TONES = { ok: "good", warning: "warn", critical: "bad", unreachable: "bad" } as const;
const WORDS = { ok: "Healthy", warning: "Warning", critical: "Critical", unreachable: "Unreachable" } as const;

/** A dot that says whether live figures arrive, and how the cluster is. */
@customElement("o-pulse")
export class Pulse extends Part {
  constructor() {
    super();
    new LiveUpdates(this);
  }

  protected override updated(): void {
    const isAnswered = live.state === "open" && live.latest && live.latest.health !== "unreachable";
    if (isAnswered && !isClusterKnown()) this.dispatchEvent(new Event("answered"));
  }

  override render(): TemplateResult {
    const health = live.latest?.health;
    const tone = live.state !== "open" || !health ? "plain" : TONES[health];
    const text = live.state === "broken" ? "Reconnecting" : !health ? "Connecting" : WORDS[health];
    return html`<a class="pulse ${tone}" href="/doctor" data-tip="Health of the cluster, every second"><i></i><span>${text}</span></a>`;
  }
}
