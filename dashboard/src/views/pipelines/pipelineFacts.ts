/** The report of a pipeline in the form that both pages show. */

import type { Schemas } from "../../api/client";
import { count, dateTime, duration, exact, rate, relativeTime } from "../../lib/format";
import { texts } from "../../text/pipelines";

export type Pipeline = Schemas["Pipeline"];

export const LEVELS = { running: "ok", idle: "plain", failed: "bad", stopped: "plain" } as const;

export function pipelineFacts(each: Pipeline, now: number, isUtc: boolean) {
  return [
    { name: "Lag", value: each.lagMessages === null ? "unknown" : `${count(each.lagMessages)} messages` },
    { name: "Behind", value: duration(each.lagSeconds) },
    { name: "Position", value: exact(each.position) },
    { name: "Batch", value: texts.batch(exact(each.batchId), duration(each.batchMillis === null ? null : each.batchMillis / 1_000)) },
    { name: "Rows", value: texts.rows(rate(each.rowsPerSecond), count(each.rowsTotal)) },
    ...(each.target ? [{ name: "Target", value: each.target }] : []),
    { name: "Started", value: dateTime(each.startedAt, isUtc) },
    { name: "Last report", value: relativeTime(each.updatedAt, now) },
  ];
}

/** The number of the last batch, if there is one. */
export function batchOf(each: Pipeline): string | null {
  return each.batchId === null ? null : exact(each.batchId);
}

/** The URL comes from the pipeline, so only http and https URLs become links. */
export function sparkPage(each: Pipeline): string | null {
  return each.uiUrl && /^https?:\/\//i.test(each.uiUrl) ? each.uiUrl : null;
}
