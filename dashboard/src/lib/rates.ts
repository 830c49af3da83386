/** Counts as rates. */

import type { Schemas } from "../api/client";

type Point = Schemas["Point"];
export type Counted = "pushed" | "popped" | "acked" | "nacked" | "deadLettered";

/** A bucket that began just now says nothing of a rate yet. */
const LEAST_SECONDS = 20;

/** Counts as messages a second; the bucket that is not over counts for as long as it lasts. */
export function perSecond(
  points: readonly Point[],
  bucketSeconds: number,
  name: Counted,
  nowSeconds: number,
): (number | null)[] {
  return points.map((point) => {
    const value = point[name];
    const seconds = Math.min(bucketSeconds, nowSeconds - Date.parse(point.t) / 1_000);
    return value == null || seconds < LEAST_SECONDS ? null : value / seconds;
  });
}
