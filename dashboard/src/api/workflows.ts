/** Workflow runs, with results and data as they were written. */

import { type Json, member, NULL, parseJson, plainOf } from "../lib/json";
import { kindTexts } from "../text/workflows";
import { http, type Schemas, unwrap } from "./client";
import { itemsOf, nextCursorOf } from "./pages";

export const RUN_STATES = ["running", "stopping", "compensating", "completed", "failed", "cancelled"] as const;
export type RunState = (typeof RUN_STATES)[number];
export type Info = Schemas["WorkflowInfo"];
export type Step = Omit<Schemas["StepInfo"], "result">;
export type Part = Omit<Schemas["PartInfo"], "result"> & { result?: Json };
export type Run = Omit<Schemas["WorkflowDetail"], "result" | "metadata"> & { result: Json; metadata: Json };

/** Read a run without step results, because results can be large and the run is polled. */
export async function readRun(workflow: string, signal?: AbortSignal): Promise<Run> {
  const params = { path: { workflow }, query: { results: false } };
  const text = await unwrap(http.GET("/api/v1/workflows/{workflow}", { params, parseAs: "text", signal }));
  const json = parseJson(text);
  return {
    ...(plainOf(json) as Schemas["WorkflowDetail"]),
    result: member(json, "result") ?? NULL,
    metadata: member(json, "metadata") ?? NULL,
  };
}

/** Read the result of a step, or null if it has none yet. */
export async function readResult(workflow: string, step: string, signal?: AbortSignal): Promise<Json | null> {
  const params = { path: { workflow, step } };
  const path = "/api/v1/workflows/{workflow}/steps/{step}";
  return member(parseJson(await unwrap(http.GET(path, { params, parseAs: "text", signal }))), "result") ?? null;
}

export async function listParts(
  workflow: string,
  step: string,
  query: { state?: Part["state"]; limit: number; cursor?: string },
  signal?: AbortSignal,
) {
  const params = { path: { workflow, step }, query };
  const path = "/api/v1/workflows/{workflow}/steps/{step}/parts";
  const json = parseJson(await unwrap(http.GET(path, { params, parseAs: "text", signal })));
  return {
    rows: itemsOf(json, "parts").map(
      (each): Part => ({ ...(plainOf(each) as Schemas["PartInfo"]), result: member(each, "result") }),
    ),
    nextCursor: nextCursorOf(json),
  };
}

/** Send a signal, with its data unchanged. Returns the number of steps that accepted it. */
export async function sendSignal(
  workflow: string,
  body: { signal: string; outcome: "success" | "failure" },
  data: string,
): Promise<number> {
  const rest = JSON.stringify(body).slice(0, -1);
  const answer = await unwrap(
    http.POST("/api/v1/workflows/{workflow}/signal", {
      params: { path: { workflow } },
      body,
      bodySerializer: () => (data.trim() ? `${rest},"data":${data}}` : `${rest}}`),
    }),
  );
  return answer.taken;
}

/** Duration from start to end, or to now. */
export function secondsOf(from: string | null | undefined, to: string | null | undefined, now: number): number | null {
  return from == null ? null : Math.max(0, ((to == null ? now : Date.parse(to)) - Date.parse(from)) / 1_000);
}

/** `37 of 40 parts, 1 failed`, or empty if the step has no parts or has not started. */
export function partsOf(step: Step): string {
  if (step.parts == null) return "";
  const failed = step.failedParts ? `, ${step.failedParts} failed` : "";
  return `${step.parts - (step.openParts ?? 0)} of ${step.parts} parts${failed}`;
}

/** Short description of the kind of step. */
export function kindOf(step: Step): string {
  switch (step.kind) {
    case "signal":
      return kindTexts.signal(step.signal ?? "");
    case "undo":
      return kindTexts.undo(step.undoes ?? "");
    case "map":
      return step.over ? kindTexts.mapOver(step.over) : kindTexts.map;
    default:
      return step.job && step.job !== step.name ? kindTexts.namedJob(step.job, step.queue) : kindTexts.job(step.queue);
  }
}

/** The dependencies of a step: `all of a, b`, `failure of c`. */
export function leadsOf(step: Step, steps: readonly Step[]): string {
  const done = steps.filter((each) => each.onSuccess?.includes(step.name)).map((each) => each.name);
  const failed = steps.filter((each) => each.onFailure?.includes(step.name)).map((each) => `failure of ${each.name}`);
  const all = [...done, ...failed];
  if (all.length < 2) return all[0] ?? "";
  return `${step.join === "any" ? "any of" : "all of"} ${all.join(", ")}`;
}

/** What a retry can do: restart steps, repeat failed compensation, or nothing. */
export function retryOf(run: Run): "steps" | "undo" | null {
  if (run.state !== "failed" && run.state !== "cancelled") return null;
  const undos = run.steps.filter((step) => step.kind === "undo");
  if (undos.some((step) => step.state === "failed")) return "undo";
  return undos.some((step) => step.state === "completed") ? null : "steps";
}
