/** Convert counts to rates. */

import type { Schemas } from "../api/client";

type Point = Schemas["Point"];
export type Counted = "pushed" | "popped" | "acked" | "nacked" | "deadLettered";

/** A bucket that just started is too short to give a rate. */
const LEAST_SECONDS = 20;

/** Messages per second. The current bucket is divided by its elapsed time. */
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
