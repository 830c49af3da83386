/** Parser of the message search: `partition:eu status:failed payload.customer.id:42 "late fee"`. */

import { qualifierTexts, texts } from "../text/messageQuery";

export const STATUSES = [
  "pending",
  "processing",
  "failed",
  "completed",
  "dead_letter",
  "scheduled",
] as const;
export type Status = (typeof STATUSES)[number];

export interface Search {
  partition?: string;
  consumerGroup?: string;
  status?: Status;
  transactionId?: string;
  from?: string;
  to?: string;
  where?: string;
  contains?: string;
}

/** The qualifiers of the search, with their help. */
export const QUALIFIERS = {
  partition: qualifierTexts.partition,
  group: qualifierTexts.group,
  status: STATUSES.join(", "),
  tx: qualifierTexts.tx,
  from: qualifierTexts.from,
  to: qualifierTexts.to,
  "payload.": qualifierTexts.payload,
} as const;

const TERM = /(?:([\p{L}][\p{L}\p{N}_.$-]*):)?("(?:[^"\\]|\\.)*"|\S+)/gu;
const AGO = /^-(\d+(?:\.\d+)?)(s|m|h|d)$/;
const ISO = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}:\d{2})?)?$/i;
const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400 };

/** Parse an ISO time or an age such as -15m. Times without a zone use the displayed time zone. Null if invalid. */
export function parseTime(text: string, now: number, isUtc: boolean): string | null {
  const [, many, unit] = AGO.exec(text) ?? [];
  const [, day, time = "00:00", zone = isUtc ? "Z" : ""] = ISO.exec(text) ?? [];
  const at = many && unit ? now - Number(many) * (SECONDS[unit] ?? 1) * 1_000 : Date.parse(`${day}T${time}${zone}`);
  const date = new Date(at);
  return Number.isFinite(date.getTime()) ? date.toISOString() : null;
}

function unquoted(text: string): string {
  return text.startsWith('"') && text.length > 1 ? text.slice(1, -1).replace(/\\(.)/g, "$1") : text;
}

export function quoted(text: string): string {
  return /^[^\s":]+$/.test(text) ? text : `"${text.replace(/["\\]/g, "\\$&")}"`;
}

/** Parse a query. `faults` explains the terms that are invalid. */
export function parseMessageQuery(text: string, now: number, isUtc: boolean): { search: Search; faults: string[] } {
  const search: Search = {};
  const faults: string[] = [];
  const free: string[] = [];

  function set(name: keyof Search, value: string, word: string): void {
    if (search[name] !== undefined) faults.push(texts.once(word));
    Object.assign(search, { [name]: value });
  }

  for (const [whole, qualifier, written = ""] of text.matchAll(TERM)) {
    const value = unquoted(written);
    if (qualifier === undefined) free.push(value);
    else if (qualifier.startsWith("payload."))
      // Quoted values are strings, even if they look like numbers.
      set("where", `${qualifier.slice(8)}=${written.startsWith('"') ? JSON.stringify(value) : value}`, "payload.…");
    else if (qualifier === "partition") set("partition", value, qualifier);
    else if (qualifier === "group") set("consumerGroup", value, qualifier);
    else if (qualifier === "tx") set("transactionId", value, qualifier);
    else if (qualifier === "status") {
      const status = STATUSES.find((each) => each === value);
      if (status) set("status", status, qualifier);
      else faults.push(texts.status(STATUSES.join(", ")));
    } else if (qualifier === "from" || qualifier === "to") {
      const at = parseTime(value, now, isUtc);
      if (at) set(qualifier, at, qualifier);
      else faults.push(texts.time(`${qualifier}:${value}`));
    } else free.push(whole);
  }
  if (free.length) search.contains = free.join(" ");
  return { search, faults };
}

/** Replace or remove one qualifier of a query. */
export function withTerm(text: string, qualifier: string, value: string): string {
  const rest = [...text.matchAll(TERM)].filter((each) => each[1] !== qualifier).map((each) => each[0]);
  return [...(value ? [`${qualifier}:${quoted(value)}`] : []), ...rest].join(" ");
}
