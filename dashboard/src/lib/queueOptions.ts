/** The options of a queue: names, units and kinds of fields. */

import type { Options } from "../api/queues";
import { canonical, indented, isJson, type Json, parseJson } from "./json";

export type Name = Exclude<keyof Options, "deadLetterQueue" | "managedBy" | "paused">;

export interface Option {
  name: Name;
  /** `fixed`: it can't change after the queue is created. */
  kind: "number" | "switch" | "rate" | "json" | "fixed";
  unit?: string;
}

export const OPTIONS: { title: string; options: Option[] }[] = [
  {
    title: "Delivery",
    options: [
      { name: "leaseTime", kind: "number", unit: "s" },
      { name: "retryLimit", kind: "number" },
      { name: "retryDelay", kind: "number", unit: "ms" },
      { name: "retryBackoff", kind: "number" },
      { name: "maxRetryDelay", kind: "number", unit: "ms" },
      { name: "dlqAfterMaxRetries", kind: "switch" },
      { name: "ordered", kind: "switch" },
      { name: "priority", kind: "number" },
      { name: "delayedProcessing", kind: "number", unit: "s" },
      { name: "windowBuffer", kind: "number", unit: "s" },
    ],
  },
  {
    title: "Limits",
    options: [
      { name: "rateLimit", kind: "rate" },
      { name: "concurrencyLimit", kind: "number" },
      { name: "maxSize", kind: "number" },
      { name: "maxPayloadBytes", kind: "number", unit: "bytes" },
      { name: "ttl", kind: "number", unit: "s" },
      { name: "maxWaitTimeSeconds", kind: "number", unit: "s" },
      { name: "schema", kind: "json" },
    ],
  },
  {
    title: "Storage",
    options: [
      { name: "dedupWindowSeconds", kind: "number", unit: "s" },
      { name: "retentionEnabled", kind: "switch" },
      { name: "retentionSeconds", kind: "number", unit: "s" },
      { name: "completedRetentionSeconds", kind: "number", unit: "s" },
      { name: "partitionRetentionSeconds", kind: "number", unit: "s" },
      { name: "encryptionEnabled", kind: "switch" },
      { name: "placement", kind: "fixed" },
    ],
  },
];

export type Draft = Partial<Record<Name, unknown>>;

export interface Change {
  name: Name;
  before: unknown;
  after: unknown;
}

/** The changes of a draft. Values are compared as JSON, ignoring member order but not digits. */
export function changes(before: Options, draft: Draft): Change[] {
  return Object.entries(draft)
    .map(([name, after]) => ({ name: name as Name, before: before[name as Name] ?? null, after }))
    .filter((each) => canonical(jsonOf(each.before)) !== canonical(jsonOf(each.after)));
}

function jsonOf(value: unknown): Json {
  return isJson(value) ? value : parseJson(JSON.stringify(value));
}

/** The JSON text that is saved. */
export function written(value: unknown): string {
  return jsonOf(value).raw;
}

const UNSET: Name[] = ["rateLimit", "schema"];

/** A value as the diff shows it. A removed number means the default of the server. */
export function shown(value: unknown, name: Name): string {
  if (value === null || value === undefined) return UNSET.includes(name) ? "none" : "default";
  if (typeof value === "boolean") return value ? "on" : "off";
  return typeof value === "object" ? indented(jsonOf(value)).replace(/\n */g, " ") : String(value);
}
