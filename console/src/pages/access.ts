/** Who may do what: access rules, users, quotas, roles. */

import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { get } from "../core/api.js";
import { count } from "../core/format.js";
import { Part } from "../core/part.js";
import { hasFeature, lacksFeature, mayWrite } from "../core/session.js";
import type { Acl, Page, Quota, Role, User } from "../core/types.js";
import { badge, button, copyable, iconButton, pageHead, term } from "../parts/bits.js";
import { propose, type Change } from "../parts/change.js";
import { notAvailable } from "../parts/states.js";
import "../parts/table.js";
import type { Column } from "../parts/table.js";
import { chosenTab, tabBar } from "../parts/tabs.js";
import * as changes from "./access-changes.js";

const LEADS: Record<string, unknown> = {
  acls: html`An access rule (${term("ACL")}) allows or denies a ${term("principal")} an operation on a resource. Without a rule nothing is allowed.`,
  users: "Users with a password that the cluster keeps (SCRAM). The password itself is not stored.",
  quotas: html`A ${term("quota")} limits what a user or a client may use. A client beyond the limit is slowed down.`,
  roles: "A role is a named set of access rules that is bound to principals.",
};

type Action = [Parameters<typeof iconButton>[0], string, () => Change];

@customElement("page-access")
export class AccessPage extends Part {
  @property() tab = "";

  override render(): TemplateResult {
    const tabs = [
      { id: "acls", label: "Access rules" },
      { id: "users", label: "Users" },
      { id: "quotas", label: "Quotas" },
      ...(hasFeature("roles") ? [{ id: "roles", label: "Roles" }] : []),
    ];
    const tab = chosenTab(tabs);
    const isThere = tab !== "acls" || !lacksFeature("acls");
    return html`${pageHead({ title: "Access", lead: LEADS[tab], actions: isThere && mayWrite() ? this.addButton(tab) : nothing })}
    ${tabBar(tabs, tab)} ${isThere ? this.table(tab) : noAuthorizer()}`;
  }

  private addButton(tab: string): TemplateResult {
    const added: Record<string, [string, () => Change]> = {
      acls: ["Add a rule", changes.addAcl],
      users: ["Add a user", () => changes.setUser()],
      quotas: ["Set a quota", () => changes.setQuota()],
      roles: ["Bind a role", () => changes.bindRole()],
    };
    const [label, make] = added[tab]!;
    return button(label, () => void this.change(make()), { icon: "plus", tone: "primary" });
  }

  private table(tab: string): TemplateResult {
    if (tab === "users") return this.list("Users", "/users", "name", this.userColumns(), { icon: "user", title: "There are no users with a password", text: "Add one, or let clients log in by certificate or token." });
    if (tab === "quotas") return this.list("Quotas", "/quotas", "", this.quotaColumns(), { icon: "rights", title: "There are no quotas", text: "Every client may use what the brokers can give." });
    if (tab === "roles") return this.list("Roles", "/roles", "name", this.roleColumns(), { icon: "rights", title: "There are no roles", text: "Create one from a terminal:", action: copyable("ottla roles --help") });
    return this.list("Access rules", "/acls", "principal", this.aclColumns(), { icon: "rights", title: "There are no access rules", text: "Only super users may do something until you add one." });
  }

  private list<Row>(label: string, path: string, sort: string, columns: Column<Row>[], whenEmpty: object): TemplateResult {
    return html`<o-table
      class="fill"
      label=${label}
      sort=${sort}
      filterable
      placeholder="Filter"
      .columns=${columns}
      .source=${this.sourceOf(path)}
      .whenEmpty=${whenEmpty}
    ></o-table>`;
  }

  private sources = new Map<string, unknown>();

  /** The same function for the same path, so that the table does not read again with every update. */
  private sourceOf(path: string): unknown {
    if (!this.sources.has(path)) {
      this.sources.set(path, (query: object, signal: AbortSignal) => get<Page<unknown>>(path, { ...query }, signal));
    }
    return this.sources.get(path);
  }

  private aclColumns(): Column<Acl>[] {
    return [
      {
        key: "principal",
        label: "Principal",
        sortable: true,
        width: "20%",
        narrow: "",
        cell: (acl) => html`<b>${acl.principal}</b><span class="second-line">${ruleOf(acl)}</span>`,
      },
      { key: "permission", label: "", width: "90", hide: "narrow", cell: (acl) => badge(acl.permission.toLowerCase(), acl.permission === "DENY" ? "bad" : "good") },
      { key: "operation", label: "Operation", sortable: true, width: "150", hide: "narrow", cell: (acl) => words(acl.operation) },
      {
        key: "resource_name",
        label: "Resource",
        sortable: true,
        hide: "narrow",
        cell: (acl) => html`${words(acl.resource_type)} <span class="mono">${resourceOf(acl)}</span>`,
      },
      { key: "host", label: "From host", width: "120", hide: "middle", cell: (acl) => (acl.host === "*" ? html`<span class="faint">any</span>` : acl.host) },
      { ...this.actions<Acl>((acl) => [["trash", "Remove", () => changes.removeAcl(acl)]]), narrow: "60" },
    ];
  }

  private userColumns(): Column<User>[] {
    return [
      { key: "name", label: "User", sortable: true, cell: (user) => html`<b>${user.name}</b>` },
      { key: "mechanisms", label: "Logs in with", cell: (user) => user.mechanisms.map((credential) => badge(credential.mechanism, "plain", `${count(credential.iterations)} iterations`)) },
      this.actions((user) => [
        ["edit", "Change the password", () => changes.setUser(user.name)],
        ["trash", "Remove", () => changes.removeUser(user)],
      ]),
    ];
  }

  private quotaColumns(): Column<Quota>[] {
    const who = (quota: Quota) => Object.entries(quota.entity).map(([kind, name]) => html`${kind} <b>${name ?? "default"}</b> `);
    return [
      { key: "entity", label: "For", cell: who },
      { key: "quotas", label: "Limits", cell: (quota) => Object.entries(quota.quotas).map(([name, limit]) => badge(html`${name.replaceAll("_", " ")} ${count(limit)}`)) },
      this.actions((quota) => [["edit", "Change", () => changes.setQuota(quota)]]),
    ];
  }

  private roleColumns(): Column<Role>[] {
    return [
      { key: "name", label: "Role", sortable: true, width: "20%", narrow: "30%", cell: (role) => html`<b>${role.name}</b>` },
      { key: "rules", label: "Rules", cell: (role) => html`<span data-tip=${role.rules.join("\n")} tabindex="0">${role.rules.join(", ")}</span>` },
      { key: "bindings", label: "Bound to", width: "30%", cell: (role) => role.bindings.map((name) => badge(name)) },
      this.actions((role) => [
        ["plus", "Bind to a principal", () => changes.bindRole(role.name)],
        ...(role.bindings.length ? [["close", "Take from a principal", () => changes.unbindRole(role)] satisfies Action] : []),
      ]),
    ];
  }

  private actions<Row>(of: (row: Row) => Action[]): Column<Row> {
    const cell = (row: Row) => of(row).map(([name, label, make]) => iconButton(name, label, () => void this.change(make())));
    return { key: "action", label: "", width: "96", cell: (row) => (mayWrite() ? html`<span class="row-actions">${cell(row)}</span>` : nothing) };
  }

  private async change(change: Change): Promise<void> {
    if (await propose(change)) this.querySelector("o-table")?.reload();
  }
}

function words(name: string): string {
  return name.toLowerCase().replaceAll("_", " ");
}

function resourceOf(acl: Acl): string {
  return `${acl.resource_name}${acl.pattern_type === "PREFIXED" ? "*" : ""}`;
}

/** The whole rule as a sentence, for a window that has no room for columns. */
function ruleOf(acl: Acl): TemplateResult {
  const isDenied = acl.permission === "DENY";
  const host = acl.host === "*" ? "" : ` from ${acl.host}`;
  return html`<b class=${isDenied ? "bad" : "good"}>${isDenied ? "may not" : "may"}</b> ${words(acl.operation)} ${words(acl.resource_type)}
    <span class="mono">${resourceOf(acl)}</span>${host}`;
}

function noAuthorizer(): TemplateResult {
  return notAvailable(
    "rights",
    "Everybody may do everything here",
    html`This cluster has no access rules, because its nodes have no authorizer. It is a setting of every node:
      ${copyable("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer")}`,
  );
}
