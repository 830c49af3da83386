/** Messages with their payloads as they were written. */

import { type Json, member, parseJson, plainOf } from "../lib/json";
import type { Search } from "../lib/messageQuery";
import { unwrap, http, type Schemas } from "./client";

/** What the API tells, but for the payload, which stays as it was written. */
export type Exact<T> = Omit<T, "data"> & { data: Json };
export type Info = Exact<Schemas["MessageInfo"]>;
export type TraceEvent = Exact<Schemas["TraceEvent"]>;
export type Detail = Omit<Exact<Schemas["MessageDetail"]>, "traces"> & { traces: TraceEvent[] };
export type DeadLetter = Exact<Schemas["DeadLetter"]>;

const NULL: Json = { kind: "null", text: "null", raw: "null" };

/** Of an object of the API, its `data` as it was written. */
export function exactly<T>(json: Json): Exact<T> {
  return { ...(plainOf(json) as T), data: member(json, "data") ?? NULL };
}

function list<T>(json: Json, key: string): Exact<T>[] {
  const found = member(json, key);
  return found?.kind === "array" ? found.items.map((each) => exactly<T>(each)) : [];
}

export interface Found {
  rows: Info[];
  nextCursor: string | null;
  scanned: number;
  complete: boolean;
}

export async function searchMessages(
  queue: string,
  search: Search,
  page: { limit: number; cursor?: string; reveal?: true },
  signal?: AbortSignal,
): Promise<Found> {
  const text = await unwrap(
    http.GET("/api/v1/messages", {
      params: { query: { queue, ...search, ...page } },
      parseAs: "text",
      signal,
    }),
  );
  const json = parseJson(text);
  return {
    rows: list<Schemas["MessageInfo"]>(json, "messages"),
    nextCursor: plainOf(member(json, "nextCursor") ?? NULL) as string | null,
    scanned: Number(member(json, "scanned")?.raw),
    complete: member(json, "complete")?.raw === "true",
  };
}

/** A message by its id, or, as one that is scheduled has none, by partition and transactionId. */
export interface Ref {
  ref: string;
  transactionId?: string;
}

export function refOf(message: { id: string | null; partitionId: string; transactionId: string }): Ref {
  if (message.id !== null) return { ref: message.id };
  return { ref: message.partitionId, transactionId: message.transactionId };
}

/** Where the page of a message is. */
export function linkTo(message: Parameters<typeof refOf>[0]) {
  const { ref, transactionId } = refOf(message);
  return { name: "message", params: { message: ref, transactionId } };
}

export async function readMessage(ref: Ref, signal?: AbortSignal, query: { reveal?: true } = {}): Promise<Detail> {
  const { transactionId } = ref;
  const text = await unwrap(
    transactionId === undefined
      ? http.GET("/api/v1/messages/{ref}", { params: { path: ref, query }, parseAs: "text", signal })
      : http.GET("/api/v1/messages/{ref}/{transactionId}", {
          params: { path: { ref: ref.ref, transactionId }, query },
          parseAs: "text",
          signal,
        }),
  );
  const json = parseJson(text);
  return { ...exactly<Schemas["MessageDetail"]>(json), traces: list<Schemas["TraceEvent"]>(json, "traces") };
}

export async function readTrace(
  name: string,
  page: { limit: number; cursor?: string },
  signal?: AbortSignal,
): Promise<{ rows: TraceEvent[]; nextCursor: string | null }> {
  const params = { path: { name }, query: page };
  const json = parseJson(await unwrap(http.GET("/api/v1/traces/by-name/{name}", { params, parseAs: "text", signal })));
  return {
    rows: list<Schemas["TraceEvent"]>(json, "traces"),
    nextCursor: plainOf(member(json, "nextCursor") ?? NULL) as string | null,
  };
}

export interface DeadLetterFilter {
  queue?: string;
  consumerGroup?: string;
  fingerprint?: string;
  partition?: string;
}

export async function listDeadLetters(
  filter: DeadLetterFilter,
  page: { sort?: "failedAt" | "-failedAt"; limit: number; cursor?: string; reveal?: true },
  signal?: AbortSignal,
): Promise<{ rows: DeadLetter[]; nextCursor: string | null; total: number | null; raws: string[] }> {
  const text = await unwrap(
    http.GET("/api/v1/dlq", { params: { query: { ...filter, ...page } }, parseAs: "text", signal }),
  );
  const json = parseJson(text);
  const letters = member(json, "messages");
  return {
    rows: list<Schemas["DeadLetter"]>(json, "messages"),
    nextCursor: plainOf(member(json, "nextCursor") ?? NULL) as string | null,
    total: plainOf(member(json, "total") ?? NULL) as number | null,
    raws: letters?.kind === "array" ? letters.items.map((each) => each.raw) : [],
  };
}

/** A payload in a cell of a table, or why there is none. */
export function brief(message: Pick<Info, "masked" | "dataError" | "data">, most: number): string {
  return message.masked ? "masked" : (message.dataError ?? message.data.raw.slice(0, most));
}

/** A payload pushed byte for byte; the client would round its numbers. */
export async function pushExactly(
  item: Omit<Schemas["PushItem"], "payload">,
  payload: string,
): Promise<Schemas["Pushed"]> {
  const rest = JSON.stringify(item);
  const answer = await unwrap(
    http.POST("/api/v1/push", {
      body: { items: [] },
      bodySerializer: () => `{"items":[${rest.slice(0, -1)},"payload":${payload}}]}`,
    }),
  );
  return answer.messages[0]!;
}
