/** One subject: its versions, the difference of two, compatibility. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { at, get } from "../core/api.js";
import { Part } from "../core/part.js";
import { Resource } from "../core/resource.js";
import { navigate } from "../core/router.js";
import { mayWrite } from "../core/session.js";
import type { DiffLine, SchemaVersion, SubjectDetail } from "../core/types.js";
import { badge, button, card, copyText, pageHead, term } from "../parts/bits.js";
import { propose } from "../parts/change.js";
import { diffView } from "../parts/diff.js";
import { pretty, register } from "./schema-register.js";

const LEVELS = ["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"];

@customElement("page-schema")
export class SchemaPage extends Part {
  @property() subject = "";
  @state() private chosen: number | null = null;
  private detail = new Resource<SubjectDetail>(this, (signal) => get(at`/schemas/${this.subject}`, {}, signal));
  private shown = new Resource(this, (signal) => this.loadVersion(signal));

  /** The chosen version, and what it changed. */
  private async loadVersion(signal: AbortSignal): Promise<{ version: SchemaVersion; lines: DiffLine[] | null }> {
    const detail = await get<SubjectDetail>(at`/schemas/${this.subject}`, {}, signal);
    const number = this.chosen ?? detail.latest.version;
    const version =
      number === detail.latest.version ? detail.latest : await get<SchemaVersion>(at`/schemas/${this.subject}/versions/${number}`, {}, signal);
    const earlier = detail.versions.filter((known) => known.version < number).pop();
    if (!earlier) return { version, lines: null };
    const diff = await get<{ lines: DiffLine[] }>(at`/schemas/${this.subject}/diff`, { from: earlier.version, to: number }, signal);
    return { version, lines: diff.lines };
  }

  override render(): TemplateResult {
    return this.detail.render(
      (detail) => html`${this.head(detail)} ${this.versions(detail)}
        ${this.shown.render(
          ({ version, lines }) => html`<div class="columns">
            ${card(`Version ${version.version}`, html`<pre class="content" tabindex="0">${pretty(version.schema)}</pre>
              ${version.references.length ? this.references(version) : nothing}`, {
              actions: button("Copy", () => void copyText(pretty(version.schema)), { icon: "copy", tone: "quiet" }),
              lead: html`${badge(version.type.toLowerCase())} id ${version.id}`,
            })}
            ${lines ? card("What it changed", diffView(lines)) : nothing}
          </div>`,
        )}`,
      pageHead({ back: { href: "/schemas", label: "Schemas" }, title: this.subject }),
    );
  }

  private head(detail: SubjectDetail): TemplateResult {
    return pageHead({
      back: { href: "/schemas", label: "Schemas" },
      title: detail.subject,
      badges: badge(detail.compatibility.toLowerCase().replaceAll("_", " "), "info", `Set for ${detail.compatibility_source === "subject" ? "this subject" : "all subjects"}.`),
      actions: mayWrite()
        ? html`${button("New version…", () => void this.add(detail), { icon: "plus", tone: "primary" })}
          ${button("Compatibility…", () => void this.setCompatibility(detail))}
          ${button("Delete…", () => void this.deleteSubject(detail), { icon: "trash", tone: "danger" })}`
        : nothing,
    });
  }

  private references(version: SchemaVersion): TemplateResult {
    return html`<p class="soft">Refers to:</p>
      <ul class="references">
        ${version.references.map(
          (reference) => html`<li>${reference.name}: <a href=${at`/schemas/${reference.subject}`}>${reference.subject}</a>, version ${reference.version}</li>`,
        )}
      </ul>`;
  }

  private versions(detail: SubjectDetail): TemplateResult {
    const chosen = this.chosen ?? detail.latest.version;
    return html`<div class="chips" role="group" aria-label="Versions">
      ${[...detail.versions].reverse().map(
        (version) => html`<button type="button" class="chip" aria-pressed=${version.version === chosen} @click=${() => this.choose(version.version)}>
          Version ${version.version}
        </button>`,
      )}
    </div>`;
  }

  private choose(version: number): void {
    this.chosen = version;
    void this.shown.reload();
  }

  private async reload(): Promise<void> {
    this.chosen = null;
    await Promise.all([this.detail.reload(), this.shown.reload()]);
  }

  private async add(detail: SubjectDetail): Promise<void> {
    if (await register(detail)) await this.reload();
  }

  private async setCompatibility(detail: SubjectDetail): Promise<void> {
    const outcome = await propose({
      title: `Compatibility of ${detail.subject}`,
      lead: html`${term("compatibility", "Compatibility")} decides which new versions the registry accepts.`,
      method: "PUT",
      path: at`/schemas/${detail.subject}/compatibility`,
      verb: "Apply",
      fields: [{ name: "level", label: "Level", kind: "select", required: true, options: LEVELS, value: detail.compatibility }],
      body: (values) => ({ compatibility: values.level }),
    });
    if (outcome) await this.reload();
  }

  private async deleteSubject(detail: SubjectDetail): Promise<void> {
    const outcome = await propose({
      title: `Delete ${detail.subject}`,
      method: "DELETE",
      path: at`/schemas/${detail.subject}`,
      verb: "Delete",
      danger: true,
      typed: detail.subject,
      fields: [{ name: "permanent", label: "For good", kind: "checkbox", help: "Records written with it can no longer be decoded." }],
      body: (values) => ({ version: null, permanent: values.permanent === "true" }),
    });
    if (outcome) navigate("/schemas");
  }
}
