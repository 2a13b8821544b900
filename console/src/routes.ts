/** Which address shows which page. */

import { html } from "lit";
import type { Place, Route } from "./core/router.js";
import "./pages/access.js";
import "./pages/audit.js";
import "./pages/balance.js";
import "./pages/broker.js";
import "./pages/brokers.js";
import "./pages/connector.js";
import "./pages/connectors.js";
import "./pages/doctor.js";
import "./pages/group.js";
import "./pages/groups.js";
import "./pages/mirrors.js";
import "./pages/overview.js";
import "./pages/schema.js";
import "./pages/schemas.js";
import "./pages/topic.js";
import "./pages/topics.js";
import "./pages/transactions.js";

const tab = (place: Place) => place.query.get("tab") ?? "";

export const ROUTES: Route[] = [
  { pattern: "/", title: () => "Overview", show: () => html`<page-overview></page-overview>` },
  { pattern: "/brokers", title: () => "Brokers", show: () => html`<page-brokers></page-brokers>` },
  {
    pattern: "/brokers/:id",
    title: (place) => `Broker ${place.params.id}`,
    show: (place) => html`<page-broker .broker=${place.params.id!} .tab=${tab(place)}></page-broker>`,
  },
  { pattern: "/balance", title: () => "Balance", show: () => html`<page-balance></page-balance>` },
  { pattern: "/doctor", title: () => "Doctor", show: () => html`<page-doctor></page-doctor>` },
  {
    pattern: "/topics",
    title: () => "Topics",
    show: (place) => html`<page-topics
      .health=${place.query.get("health") ?? "all"}
      .isCreating=${place.query.has("create")}
    ></page-topics>`,
  },
  {
    pattern: "/topics/:name",
    title: (place) => place.params.name!,
    show: (place) => html`<page-topic .name=${place.params.name!} .tab=${tab(place)}></page-topic>`,
  },
  { pattern: "/groups", title: () => "Groups", show: () => html`<page-groups></page-groups>` },
  {
    pattern: "/groups/:id",
    title: (place) => place.params.id!,
    show: (place) => html`<page-group .group=${place.params.id!} .tab=${tab(place)}></page-group>`,
  },
  { pattern: "/transactions", title: () => "Transactions", show: () => html`<page-transactions></page-transactions>` },
  {
    pattern: "/access",
    title: () => "Access",
    show: (place) => html`<page-access .tab=${tab(place)}></page-access>`,
  },
  { pattern: "/schemas", title: () => "Schemas", show: () => html`<page-schemas></page-schemas>` },
  {
    pattern: "/schemas/:subject",
    title: (place) => place.params.subject!,
    show: (place) => html`<page-schema .subject=${place.params.subject!}></page-schema>`,
  },
  { pattern: "/connectors", title: () => "Connectors", show: () => html`<page-connectors></page-connectors>` },
  {
    pattern: "/connectors/:name",
    title: (place) => place.params.name!,
    show: (place) => html`<page-connector .name=${place.params.name!}></page-connector>`,
  },
  { pattern: "/mirrors", title: () => "Mirroring", show: () => html`<page-mirrors></page-mirrors>` },
  { pattern: "/audit", title: () => "Audit", show: () => html`<page-audit></page-audit>` },
];
