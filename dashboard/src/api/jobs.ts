/** Jobs with their data, results and progress as they were written. */

import { type Json, member, NULL, parseJson, plainOf } from "../lib/json";
import { http, type Schemas, unwrap } from "./client";
import { itemsOf, nextCursorOf, scanOf } from "./pages";

export const JOB_STATUSES = ["scheduled", "waiting", "active", "completed", "failed", "cancelled"] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];
export type Job = Omit<Schemas["JobInfo"], "data" | "result" | "progress" | "metadata"> & {
  data: Json;
  result: Json;
  progress: Json;
  metadata: Json;
};

function jobOf(json: Json): Job {
  return {
    ...(plainOf(json) as Schemas["JobInfo"]),
    data: member(json, "data") ?? NULL,
    result: member(json, "result") ?? NULL,
    progress: member(json, "progress") ?? NULL,
    metadata: member(json, "metadata") ?? NULL,
  };
}

export async function listJobs(
  query: { queue: string; status?: JobStatus; name?: string; limit: number; cursor?: string },
  signal?: AbortSignal,
) {
  const text = await unwrap(http.GET("/api/v1/jobs", { params: { query }, parseAs: "text", signal }));
  const json = parseJson(text);
  return {
    rows: itemsOf(json, "jobs").map(jobOf),
    nextCursor: nextCursorOf(json),
    ...scanOf(json),
  };
}

export async function readJob(
  queue: string,
  id: string,
  query: { key?: string; reveal?: true },
  signal?: AbortSignal,
): Promise<Job> {
  const params = { path: { queue, id }, query };
  const text = await unwrap(http.GET("/api/v1/jobs/{queue}/{id}", { params, parseAs: "text", signal }));
  return jobOf(parseJson(text));
}

/** The progress as a share from 0 to 1, or null if it is something else. */
export function shareOf(progress: Json): number | null {
  const share = progress.kind === "number" ? Number(progress.text) : NaN;
  return share >= 0 && share <= 1 ? share : null;
}
