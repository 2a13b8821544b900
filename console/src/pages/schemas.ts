/** Subjects of the schema registry. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { get } from "../core/api.js";
import { Part } from "../core/part.js";
import { navigate } from "../core/router.js";
import { hasFeature, mayWrite } from "../core/session.js";
import type { Page, Subject } from "../core/types.js";
import { badge, button, copyable, pageHead, term } from "../parts/bits.js";
import { notAvailable } from "../parts/states.js";
import "../parts/table.js";
import type { Column } from "../parts/table.js";
import { register } from "./schema-register.js";

@customElement("page-schemas")
export class SchemasPage extends Part {
  private source = (query: object, signal: AbortSignal) => get<Page<Subject>>("/schemas", { ...query }, signal);

  override render(): TemplateResult {
    const isThere = hasFeature("registry");
    return html`${pageHead({
      title: "Schemas",
      lead: html`The registry keeps the versions of schemas under ${term("subject", "subjects")}, and refuses those that would break readers.`,
      actions: isThere && mayWrite() ? button("Register a schema", () => void this.add(), { icon: "plus", tone: "primary" }) : nothing,
    })}
    ${isThere ? this.table() : missing()}`;
  }

  private table(): TemplateResult {
    return html`<o-table
      class="fill"
      label="Subjects"
      sort="subject"
      filterable
      addressed
      placeholder="Filter subjects"
      .columns=${COLUMNS}
      .source=${this.source}
      .href=${(subject: Subject) => `/schemas/${encodeURIComponent(subject.subject)}`}
      .whenEmpty=${{ icon: "schema", title: "No schema is registered yet", text: "Producers register schemas when they write, or you register one here." }}
    ></o-table>`;
  }

  private async add(): Promise<void> {
    const subject = await register(null);
    if (subject) navigate(`/schemas/${encodeURIComponent(subject)}`);
  }
}

function missing(): TemplateResult {
  return notAvailable(
    "schema",
    "This console knows no schema registry",
    html`Start one, and tell the console its address: ${copyable("ottla console --registry http://localhost:8081")}`,
  );
}

const COLUMNS: Column<Subject>[] = [
  { key: "subject", label: "Subject", sortable: true },
  { key: "type", label: "Language", width: "120", narrow: "96", cell: (subject) => badge(subject.type.toLowerCase()) },
  { key: "latest", label: "Version", number: true, width: "100", narrow: "72" },
  { key: "id", label: "Id", number: true, width: "90", hide: "narrow" },
  { key: "compatibility", label: "Compatibility", width: "190", hide: "narrow", cell: (subject) => subject.compatibility.toLowerCase().replaceAll("_", " ") },
];
