/** The pages as the sidebar and the command palette list them. */

import type { IconName } from "./parts/icons.js";

export interface NavigationPage {
  path: string;
  label: string;
  icon: IconName;
}

export const SECTIONS: { label: string; pages: NavigationPage[] }[] = [
  {
    label: "Cluster",
    pages: [
      { path: "/", label: "Overview", icon: "overview" },
      { path: "/brokers", label: "Brokers", icon: "broker" },
      { path: "/balance", label: "Balance", icon: "balance" },
      { path: "/doctor", label: "Doctor", icon: "doctor" },
    ],
  },
  {
    label: "Data",
    pages: [
      { path: "/topics", label: "Topics", icon: "topic" },
      { path: "/schemas", label: "Schemas", icon: "schema" },
      { path: "/groups", label: "Groups", icon: "group" },
      { path: "/transactions", label: "Transactions", icon: "transaction" },
    ],
  },
  {
    label: "Pipelines",
    pages: [
      { path: "/connectors", label: "Connectors", icon: "connector" },
      { path: "/mirrors", label: "Mirroring", icon: "mirror" },
    ],
  },
  {
    label: "Security",
    pages: [
      { path: "/access", label: "Access", icon: "rights" },
      { path: "/audit", label: "Audit", icon: "audit" },
    ],
  },
];
