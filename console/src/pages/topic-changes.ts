/** The changes of topics: what each asks and sends. */

import { at } from "../core/api.js";
import type { TopicDetail } from "../core/types.js";
import type { Change } from "../parts/change.js";
import { parsePairs, type Values } from "../parts/fields.js";

export function creation(named: (name: string) => void): Change {
  return {
    title: "Create a topic",
    method: "POST",
    path: "/topics",
    verb: "Create",
    done: "The topic exists.",
    fields: [
      { name: "name", label: "Name", required: true, placeholder: "orders" },
      { name: "partitions", label: "Partitions", kind: "number", placeholder: "default", help: "More partitions let more consumers share the work. You can add some later, but not remove any." },
      { name: "replicas", label: "Replicas", kind: "number", placeholder: "default", help: "Copies of each partition, on different brokers. Three survive the loss of two." },
      {
        name: "cleanup",
        label: "When records are old",
        kind: "select",
        options: [
          { value: "", label: "Delete them (the cluster's default)" },
          { value: "compact", label: "Keep the newest of each key (compact)" },
          { value: "compact,delete", label: "Both" },
        ],
      },
      { name: "settings", label: "More settings", kind: "textarea", placeholder: "retention.ms=86400000\ncompression.type=zstd" },
    ],
    body: (values) => {
      named(values.name!);
      const settings = { ...(values.cleanup ? { "cleanup.policy": values.cleanup } : {}), ...parsePairs(values.settings ?? "") };
      return {
        name: values.name,
        ...numbered(values, "partitions", "partitions"),
        ...numbered(values, "replicas", "replication_factor"),
        settings,
      };
    },
  };
}

export function morePartitions(topic: TopicDetail): Change {
  return {
    title: `Add partitions to ${topic.name}`,
    lead: "Records with a key may go to another partition from then on. Partitions cannot be removed.",
    method: "POST",
    path: at`/topics/${topic.name}/partitions`,
    verb: "Add",
    fields: [{ name: "count", label: "Partitions in total", kind: "number", required: true, value: String(topic.partitions + 1) }],
    body: (values) => ({ count: Number(values.count) }),
  };
}

export function deletion(topic: TopicDetail): Change {
  return {
    title: `Delete ${topic.name}`,
    lead: "All its records are deleted. This cannot be undone.",
    method: "DELETE",
    path: at`/topics/${topic.name}`,
    verb: "Delete the topic",
    danger: true,
    typed: topic.name,
    done: "The topic is deleted.",
  };
}

export function emptying(topic: TopicDetail): Change {
  return {
    title: `Delete records of ${topic.name}`,
    lead: "Deletes the oldest records, up to an offset. This cannot be undone.",
    method: "POST",
    path: at`/topics/${topic.name}/delete-records`,
    verb: "Delete records",
    danger: true,
    typed: topic.name,
    fields: [
      {
        name: "partition",
        label: "Partition",
        kind: "select",
        required: true,
        options: [{ value: "all", label: "All partitions" }, ...topic.partition_list.map((partition) => String(partition.partition))],
      },
      { name: "before", label: "Before offset", kind: "number", required: true, value: "-1", help: "-1 deletes all records that are there now." },
    ],
    body: (values) => ({ before: offsetsBefore(topic, values) }),
  };
}

function offsetsBefore(topic: TopicDetail, values: Values): Record<string, number> {
  const chosen = topic.partition_list.filter((partition) => values.partition === "all" || String(partition.partition) === values.partition);
  return Object.fromEntries(chosen.map((partition) => [String(partition.partition), Number(values.before)]));
}

function numbered(values: Values, field: string, name: string): Record<string, number> {
  return values[field] ? { [name]: Number(values[field]) } : {};
}

export function production(topic: string, start: { key?: string; value?: string; headers?: string } = {}): Change {
  return {
    title: `Write a record to ${topic}`,
    method: "POST",
    path: at`/topics/${topic}/messages`,
    verb: "Write",
    done: "The record is written.",
    fields: [
      { name: "key", label: "Key", value: start.key ?? "", help: "Records with the same key go to the same partition, in order." },
      { name: "partition", label: "Partition", kind: "number", placeholder: "chosen by the key" },
      { name: "value", label: "Value", kind: "textarea", value: start.value ?? "" },
      { name: "headers", label: "Headers", kind: "textarea", value: start.headers ?? "", placeholder: "source=console" },
      {
        name: "encoding",
        label: "Key and value are",
        kind: "select",
        options: [
          { value: "text", label: "text" },
          { value: "hex", label: "hexadecimal digits" },
          { value: "base64", label: "Base64" },
        ],
      },
      { name: "tombstone", label: "Without a value (a tombstone)", kind: "checkbox", help: "Deletes the key from a compacted topic." },
    ],
    body: (values) => ({
      key: values.key === "" ? null : values.key,
      value: values.tombstone === "true" ? null : values.value,
      headers: Object.entries(parsePairs(values.headers ?? "")).map(([name, value]) => ({ name, value })),
      partition: values.partition ? Number(values.partition) : null,
      encoding: values.encoding,
    }),
  };
}
