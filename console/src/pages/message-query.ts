/** What the message browser asks for, as fields of a form, as parameters of the API and as part of the address. */

import type { Query } from "../core/api.js";

export interface MessageQuery {
  from: "latest" | "earliest" | "offset" | "timestamp" | "key";
  offset: string;
  /** Local date and time, as an input of type datetime-local has it. */
  time: string;
  key: string;
  partition: string;
  filter: string;
  decode: string;
}

const DEFAULTS: MessageQuery = {
  from: "latest",
  offset: "",
  time: "",
  key: "",
  partition: "",
  filter: "",
  decode: "auto",
};

export const STARTS: [MessageQuery["from"], string][] = [
  ["latest", "Newest records"],
  ["earliest", "Oldest records"],
  ["offset", "From an offset"],
  ["timestamp", "From a time"],
  ["key", "With a key"],
];

export const DECODERS: [string, string][] = [
  ["auto", "Decode by itself"],
  ["json", "As JSON"],
  ["avro", "By the registry"],
  ["text", "As text"],
  ["hex", "As bytes"],
];

export function fromAddress(): MessageQuery {
  const parameters = new URLSearchParams(location.search);
  const names = Object.keys(DEFAULTS) as (keyof MessageQuery)[];
  const given = names.map((name) => [name, parameters.get(name) ?? DEFAULTS[name]]);
  return Object.fromEntries(given) as MessageQuery;
}

export function forAddress(query: MessageQuery): Record<string, string | null> {
  const names = Object.keys(DEFAULTS) as (keyof MessageQuery)[];
  return Object.fromEntries(names.map((name) => [name, query[name] === DEFAULTS[name] ? null : query[name]]));
}

/** Parameters of `messages` and `search`. */
export function forApi(query: MessageQuery): Query {
  return {
    partition: query.partition,
    filter: query.filter,
    decode: query.decode,
    from: query.from === "key" ? "earliest" : query.from,
    offset: query.from === "offset" ? query.offset || "0" : null,
    timestamp: query.from === "timestamp" ? millisecondsOf(query.time) : null,
    key: query.from === "key" ? query.key : null,
  };
}

/** Parameters of `tail`, which always begins at the end. */
export function forTail(query: MessageQuery): Query {
  return { partition: query.partition, filter: query.filter, decode: query.decode };
}

function millisecondsOf(local: string): number {
  const moment = new Date(local).getTime();
  return Number.isNaN(moment) ? 0 : moment;
}
