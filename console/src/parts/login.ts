/** The login page: users of the cluster, or an identity provider. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { ApiError, logIn } from "../core/api.js";
import { Part } from "../core/part.js";
import { rememberInAddress } from "../core/router.js";
import type { Session } from "../core/types.js";
import { icon } from "./icons.js";
import { failure } from "./states.js";

const WITHOUT_PASSWORD = ["oidc", "certificate"];

@customElement("o-login")
export class Login extends Part {
  @property({ attribute: false }) login?: Session["login"];
  @state() private error: ApiError | null = null;
  @state() private isWorking = false;

  override connectedCallback(): void {
    super.connectedCallback();
    if (new URLSearchParams(location.search).get("login") !== "failed") return;
    this.error = new ApiError(401, "LOGIN_FAILED", "The login by your organisation failed.", "The log of the console has the reason.");
    rememberInAddress({ login: null });
  }

  override render(): TemplateResult {
    const methods = this.login?.methods ?? [];
    const mechanisms = methods.filter((method) => !WITHOUT_PASSWORD.includes(method));
    const oidc = methods.includes("oidc") && this.login?.oidc_url;
    return html`<div class="login">
      <form class="card" @submit=${this.onSubmit}>
        <div class="brand">${icon("topic")}<span>Ottla</span></div>
        <p class="soft">Log in as a user of the cluster. You see and change what the cluster allows this user.</p>
        ${oidc ? html`<a class="button primary" href=${this.oidcAddress(oidc)} target="_self">Log in with your organisation</a>` : nothing}
        ${mechanisms.length || !oidc ? this.passwordFields(mechanisms) : nothing}
        ${methods.includes("certificate")
          ? html`<p class="faint small">A browser with a client certificate is logged in by it.</p>`
          : nothing}
        ${this.error ? failure(this.error) : nothing}
      </form>
    </div>`;
  }

  private passwordFields(mechanisms: string[]): TemplateResult {
    return html`<div class="field whole">
        <label for="user">User</label>
        <input id="user" name="user" type="text" autocomplete="username" autocapitalize="off" spellcheck="false" required autofocus />
      </div>
      <div class="field whole">
        <label for="password">Password</label>
        <input id="password" name="password" type="password" autocomplete="current-password" required />
      </div>
      ${mechanisms.length > 1
        ? html`<div class="field whole">
            <label for="mechanism">Mechanism</label>
            <select id="mechanism" name="mechanism">
              <option value="">Any</option>
              ${mechanisms.map((name) => html`<option>${name}</option>`)}
            </select>
          </div>`
        : nothing}
      <button class="button primary" ?disabled=${this.isWorking}>${this.isWorking ? "Logging in…" : "Log in"}</button>`;
  }

  private oidcAddress(base: string): string {
    return `${base}?to=${encodeURIComponent(location.pathname + location.search)}`;
  }

  private async onSubmit(event: Event): Promise<void> {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? "");
    this.isWorking = true;
    this.error = null;
    try {
      const entered = await logIn(text("user"), text("password"), text("mechanism"));
      this.dispatchEvent(new CustomEvent<Session>("entered", { detail: entered }));
    } catch (error) {
      this.error = error as ApiError;
    } finally {
      this.isWorking = false;
    }
  }
}
