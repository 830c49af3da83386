/** Time series in the form that charts need. */

import { computed, type MaybeRefOrGetter, toValue } from "vue";

import { http, unwrap } from "../api/client";
import { type Counted, perSecond } from "../lib/rates";
import { usePolling } from "./usePolling";
import type { useTimeRange } from "./useTimeRange";

type Sampled = "depth" | "lag" | "oldestAgeSeconds";
type Timed = "waitMillis" | "processingMillis";

const METRICS = [
  ..."pushed popped acked nacked deadLettered depth lag oldestAgeSeconds".split(" "),
  ..."waitMillis processingMillis".split(" "),
].join(",");

export interface Scope {
  queue?: string;
  namespace?: string;
  task?: string;
}

/** Load the series of all visible queues, of one queue, or of a namespace or task. */
export function useSeries(
  range: ReturnType<typeof useTimeRange>,
  scope: MaybeRefOrGetter<Scope> = {},
  enabled: MaybeRefOrGetter<boolean> = true,
) {
  const query = usePolling(
    () => ["past", JSON.stringify(toValue(scope)), ...range.key.value],
    (signal) =>
      unwrap(
        http.GET("/api/v1/analytics/series", {
          params: { query: { metric: METRICS, ...toValue(scope), ...range.bounds() } },
          signal,
        }),
      ),
    enabled,
  );
  const points = computed(() => query.data.value?.series ?? []);
  /** Null while loading. */
  const times = computed(() => query.data.value?.series.map((point) => Date.parse(point.t) / 1_000) ?? null);
  const rate = (name: Counted) =>
    perSecond(points.value, query.data.value?.bucketSeconds ?? 60, name, Date.now() / 1_000);
  const level = (name: Sampled) => points.value.map((point) => point[name] ?? null);
  const seconds = (name: Timed, which: "p50" | "p95" | "p99") =>
    points.value.map((point) => {
      const millis = point[name]?.[which];
      return millis == null ? null : millis / 1_000;
    });
  return { query, times, rate, level, seconds };
}
