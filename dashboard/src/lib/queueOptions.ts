/** The options of a queue: how they are called, measured and edited. */

import type { Options } from "../api/queues";
import { canonical, indented, isJson, type Json, parseJson } from "./json";

export type Name = Exclude<keyof Options, "deadLetterQueue" | "paused">;

export interface Option {
  name: Name;
  kind: "number" | "switch" | "rate" | "json";
  unit?: string;
  says: string;
}

export const OPTIONS: { title: string; options: Option[] }[] = [
  {
    title: "Delivery",
    options: [
      { name: "leaseTime", kind: "number", unit: "s", says: "How long a consumer has for what it popped." },
      { name: "retryLimit", kind: "number", says: "Attempts after the first." },
      { name: "retryDelay", kind: "number", unit: "ms", says: "Wait before the second attempt." },
      { name: "retryBackoff", kind: "number", says: "The wait grows by this factor." },
      { name: "maxRetryDelay", kind: "number", unit: "ms", says: "The longest wait." },
      { name: "dlqAfterMaxRetries", kind: "switch", says: "What gives up becomes a dead letter; else it is dropped." },
      { name: "ordered", kind: "switch", says: "One delivery of a partition at a time." },
      { name: "priority", kind: "number", says: "Among the queues of one pop, higher first." },
      { name: "delayedProcessing", kind: "number", unit: "s", says: "Each message waits so long first." },
      { name: "windowBuffer", kind: "number", unit: "s", says: "A partition gathers so long before a pop takes it." },
    ],
  },
  {
    title: "Limits",
    options: [
      { name: "rateLimit", kind: "rate", says: "The most messages in a time, for each group." },
      { name: "concurrencyLimit", kind: "number", says: "Deliveries that a group may hold; 0: any." },
      { name: "maxSize", kind: "number", says: "Messages that may be pending; 0: any." },
      { name: "maxPayloadBytes", kind: "number", unit: "bytes", says: "The largest payload." },
      { name: "ttl", kind: "number", unit: "s", says: "Older messages are dropped; 0: never." },
      { name: "maxWaitTimeSeconds", kind: "number", unit: "s", says: "What waited longer becomes a dead letter; 0: never." },
      { name: "schema", kind: "json", says: "JSON Schema that each payload must satisfy." },
    ],
  },
  {
    title: "Storage",
    options: [
      { name: "dedupWindowSeconds", kind: "number", unit: "s", says: "How long a transactionId is remembered; 0: not at all." },
      { name: "retentionEnabled", kind: "switch", says: "Whether the next two are obeyed." },
      { name: "retentionSeconds", kind: "number", unit: "s", says: "Messages are kept so long, settled or not; 0: always." },
      { name: "completedRetentionSeconds", kind: "number", unit: "s", says: "What all groups settled is kept so long; 0: always." },
      { name: "partitionRetentionSeconds", kind: "number", unit: "s", says: "Empty partitions are kept so long; 0: as the server says." },
      { name: "encryptionEnabled", kind: "switch", says: "New messages are stored sealed." },
    ],
  },
];

export type Draft = Partial<Record<Name, unknown>>;

export interface Change {
  name: Name;
  before: unknown;
  after: unknown;
}

/** What a draft changes; values are compared as JSON, whatever the order of their members, and digit by digit. */
export function changes(before: Options, draft: Draft): Change[] {
  return Object.entries(draft)
    .map(([name, after]) => ({ name: name as Name, before: before[name as Name] ?? null, after }))
    .filter((each) => canonical(jsonOf(each.before)) !== canonical(jsonOf(each.after)));
}

function jsonOf(value: unknown): Json {
  return isJson(value) ? value : parseJson(JSON.stringify(value));
}

/** A value as it is saved. */
export function written(value: unknown): string {
  return jsonOf(value).raw;
}

const UNSET: Name[] = ["rateLimit", "schema"];

/** A value as the diff shows it; a number that is taken away is the server's default. */
export function shown(value: unknown, name: Name): string {
  if (value === null || value === undefined) return UNSET.includes(name) ? "none" : "default";
  if (typeof value === "boolean") return value ? "on" : "off";
  return typeof value === "object" ? indented(jsonOf(value)).replace(/\n */g, " ") : String(value);
}
