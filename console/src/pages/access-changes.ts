/** The changes of access rules, users, quotas and roles. */

import { at } from "../core/api.js";
import type { Acl, Quota, Role, User } from "../core/types.js";
import type { Change } from "../parts/change.js";

const RESOURCES = ["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"];
const OPERATIONS = ["READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS", "CLUSTER_ACTION", "IDEMPOTENT_WRITE", "ALL"];
const LIMITS = [
  { value: "producer_byte_rate", label: "bytes written per second" },
  { value: "consumer_byte_rate", label: "bytes read per second" },
  { value: "request_percentage", label: "share of a broker's time, in percent" },
  { value: "controller_mutation_rate", label: "partitions created or deleted per second" },
];

export function addAcl(): Change {
  return {
    title: "Add an access rule",
    method: "POST",
    path: "/acls",
    verb: "Add",
    done: "The rule is in force.",
    fields: [
      { name: "principal", label: "Principal", required: true, placeholder: "User:alice" },
      { name: "permission", label: "Permission", kind: "select", required: true, options: ["ALLOW", "DENY"], help: "A denial wins over every permission." },
      { name: "operation", label: "Operation", kind: "select", required: true, options: OPERATIONS, help: "Consumers need READ on the topic and on the group, producers WRITE on the topic." },
      { name: "resource_type", label: "Resource", kind: "select", required: true, options: RESOURCES },
      { name: "resource_name", label: "Name", required: true, placeholder: "orders", when: (values) => values.resource_type !== "CLUSTER" },
      {
        name: "pattern_type",
        label: "The name is",
        kind: "select",
        required: true,
        options: [
          { value: "LITERAL", label: "the whole name, or * for all" },
          { value: "PREFIXED", label: "the beginning of names" },
        ],
        when: (values) => values.resource_type !== "CLUSTER",
      },
      { name: "host", label: "From host", value: "*", required: true },
    ],
    body: (values) => (values.resource_type === "CLUSTER" ? { ...values, resource_name: "kafka-cluster", pattern_type: "LITERAL" } : values),
  };
}

export function removeAcl(acl: Acl): Change {
  return { title: "Remove an access rule", method: "DELETE", path: "/acls", verb: "Remove", danger: true, body: () => ({ ...acl }) };
}

export function setUser(name?: string): Change {
  return {
    title: name ? `Change the password of ${name}` : "Add a user",
    method: "POST",
    path: "/users",
    verb: name ? "Change" : "Add",
    fields: [
      { name: "name", label: "Name", required: true, value: name ?? "", when: () => name === undefined },
      { name: "password", label: "Password", kind: "password", required: true },
      { name: "mechanism", label: "Mechanism", kind: "select", required: true, options: ["SCRAM-SHA-512", "SCRAM-SHA-256"] },
    ],
    body: (values) => ({ ...values, name: name ?? values.name }),
  };
}

export function removeUser(user: User): Change {
  return {
    title: `Remove the user ${user.name}`,
    lead: "The user cannot log in any more. Connections that are open stay open.",
    method: "DELETE",
    path: at`/users/${user.name}`,
    verb: "Remove",
    danger: true,
    fields: [
      {
        name: "mechanism",
        label: "Mechanism",
        kind: "select",
        options: [{ value: "", label: "All" }, ...user.mechanisms.map((credential) => credential.mechanism)],
      },
    ],
    body: (values) => (values.mechanism ? { mechanism: values.mechanism } : {}),
  };
}

export function setQuota(quota?: Quota): Change {
  const entity = quota?.entity;
  return {
    title: quota ? "Change a quota" : "Set a quota",
    lead: "The limit holds for each broker. Leave the limit empty to remove it.",
    method: "PUT",
    path: "/quotas",
    verb: "Apply",
    fields: [
      {
        name: "kind",
        label: "For",
        kind: "select",
        required: true,
        options: [
          { value: "user", label: "a user" },
          { value: "client-id", label: "a client id" },
          { value: "ip", label: "an address" },
        ],
        when: () => !entity,
      },
      { name: "entity", label: "Name", placeholder: "empty: the default", when: () => !entity },
      { name: "limit", label: "Limit", kind: "select", required: true, options: LIMITS },
      { name: "value", label: "At most", kind: "number", placeholder: "no limit" },
    ],
    body: (values) => ({
      entity: entity ?? { [values.kind!]: values.entity || null },
      ...(values.value ? { set: { [values.limit!]: Number(values.value) } } : { unset: [values.limit] }),
    }),
  };
}

export function bindRole(role?: string): Change {
  return {
    title: role ? `Bind the role ${role}` : "Bind a role",
    method: "POST",
    path: (values) => at`/roles/${role ?? values.role!}/bindings`,
    verb: "Bind",
    fields: [
      { name: "role", label: "Role", required: true, when: () => role === undefined },
      { name: "principal", label: "Principal", required: true, placeholder: "User:alice" },
    ],
    body: (values) => ({ principal: values.principal }),
  };
}

export function unbindRole(role: Role): Change {
  return {
    title: `Take the role ${role.name} from a principal`,
    method: "DELETE",
    path: at`/roles/${role.name}/bindings`,
    verb: "Take away",
    danger: true,
    fields: [{ name: "principal", label: "Principal", kind: "select", required: true, options: role.bindings }],
    body: (values) => ({ principal: values.principal }),
  };
}
