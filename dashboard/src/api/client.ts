/** The only place that speaks HTTP to the server. Types are those of the server's own OpenAPI document. */

import createClient from "openapi-fetch";

import { prefix } from "../lib/pageConfig";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

const TIMEOUT_MILLIS = 15_000;

/** The server understood and said no. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly requestId: string | null,
  ) {
    super(detail);
  }
}

/** There was no answer: nobody knows what became of the call. */
export class NoResponse extends Error {
  constructor(readonly reason: "timeout" | "unreachable") {
    super(reason === "timeout" ? "The server took too long." : "The server cannot be reached.");
  }
}

let token: string | null = null;

/** Who the calls from now on are made as; null: nobody in particular. */
export function setBearerToken(bearer: string | null): void {
  token = bearer;
}

/** How old an answer may be that the server found for another dashboard: less than we wait between two questions. */
const SHARED_SECONDS = 4;
/** The same of charts, which are asked for less often. */
const CHARTS_SHARED_SECONDS = 10;
/** A page that was just opened may have been left after a change. */
let changedAt = Date.now();

/** Let an answer of a moment ago do: not after a change, which must be seen in it. */
function share(request: Request): void {
  if (request.method !== "GET") changedAt = Date.now();
  const seconds = request.url.includes("/api/v1/analytics/") ? CHARTS_SHARED_SECONDS : SHARED_SECONDS;
  if (Date.now() - changedAt > seconds * 1_000) request.headers.set("Cache-Control", `max-age=${seconds}`);
}

async function timed(request: Request): Promise<Response> {
  if (token !== null) request.headers.set("Authorization", `Bearer ${token}`);
  share(request);
  const timeout = AbortSignal.timeout(TIMEOUT_MILLIS);
  try {
    return await fetch(request, { signal: AbortSignal.any([request.signal, timeout]) });
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new NoResponse(timeout.aborted ? "timeout" : "unreachable");
  }
}

export const http = createClient<paths>({ baseUrl: prefix, fetch: timed });

interface Exchange<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** What a call answers; throws ApiError or NoResponse. */
export async function unwrap<T>(exchange: Promise<Exchange<T>>): Promise<NonNullable<T>> {
  const { data, error, response } = await exchange;
  if (response.ok && data != null) return data;
  const problem = error as Partial<Schemas["Problem"]> | undefined;
  throw new ApiError(
    response.status,
    problem?.code ?? "unknown",
    problem?.detail ?? `The server answered ${response.status}.`,
    problem?.requestId ?? response.headers.get("X-Request-Id"),
  );
}
