/** Messages with their payloads as they were written. */

import { type Json, member, NULL, parseJson, plainOf } from "../lib/json";
import type { Search } from "../lib/messageQuery";
import { http, type Schemas, unwrap } from "./client";
import { itemsOf, nextCursorOf, scanOf } from "./pages";

/** An API record whose payload keeps its original text. */
export type Exact<T> = Omit<T, "data"> & { data: Json };
export type Info = Exact<Schemas["MessageInfo"]>;
export type TraceEvent = Exact<Schemas["TraceEvent"]>;
export type Detail = Omit<Exact<Schemas["MessageDetail"]>, "traces"> & { traces: TraceEvent[] };
export type DeadLetter = Exact<Schemas["DeadLetter"]>;

/** Parse an API record and keep the original text of its `data`. */
export function exactly<T>(json: Json): Exact<T> {
  return { ...(plainOf(json) as T), data: member(json, "data") ?? NULL };
}

function list<T>(json: Json, key: string): Exact<T>[] {
  return itemsOf(json, key).map((each) => exactly<T>(each));
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
    nextCursor: nextCursorOf(json),
    ...scanOf(json),
  };
}

/** A message by ID. Scheduled messages have none, so they use partition and transactionId. */
export interface Ref {
  ref: string;
  transactionId?: string;
}

export function refOf(message: { id: string | null; partitionId: string; transactionId: string }): Ref {
  if (message.id !== null) return { ref: message.id };
  return { ref: message.partitionId, transactionId: message.transactionId };
}

/** Route to the page of a message. */
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
    nextCursor: nextCursorOf(json),
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
  return {
    rows: list<Schemas["DeadLetter"]>(json, "messages"),
    nextCursor: nextCursorOf(json),
    total: plainOf(member(json, "total") ?? NULL) as number | null,
    raws: itemsOf(json, "messages").map((each) => each.raw),
  };
}

/** The payload as a table cell shows it, or why it is missing. */
export function brief(message: Pick<Info, "masked" | "dataError" | "data">, most: number): string {
  return message.masked ? "masked" : (message.dataError ?? message.data.raw.slice(0, most));
}

/** Push a payload byte for byte, because JSON.stringify would round large numbers. */
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
