/** The HTTP client. Its types come from the OpenAPI document of the server. */

import createClient from "openapi-fetch";

import { prefix } from "../lib/pageConfig";
import { errorTexts } from "../text/errors";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

const TIMEOUT_MILLIS = 15_000;

/** The server rejected the request. */
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

/** No response arrived, so the outcome of the request is unknown. */
export class NoResponse extends Error {
  constructor(readonly reason: "timeout" | "unreachable") {
    super(errorTexts[reason].detail);
  }
}

let token: string | null = null;

/** Set the token of all further requests. Null sends none. */
export function setBearerToken(bearer: string | null): void {
  token = bearer;
}

/** Maximum age of a cached response. Shorter than the polling interval. */
const SHARED_SECONDS = 4;
/** The same for charts, which poll less often. */
const CHARTS_SHARED_SECONDS = 10;
/** Starts now because the user may have changed something before a reload. */
let changedAt = Date.now();

/** Accept cached responses, except after a change, which the response must show. */
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

/** Return the body of a response. Throws ApiError or NoResponse. */
export async function unwrap<T>(exchange: Promise<Exchange<T>>): Promise<NonNullable<T>> {
  const { data, error, response } = await exchange;
  if (response.ok && data != null) return data;
  const problem = error as Partial<Schemas["Problem"]> | undefined;
  throw new ApiError(
    response.status,
    problem?.code ?? "unknown",
    problem?.detail ?? errorTexts.status(response.status),
    problem?.requestId ?? response.headers.get("X-Request-Id"),
  );
}
