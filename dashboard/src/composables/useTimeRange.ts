/** The time range of charts: a preset or two timestamps, kept in the URL. */

import { computed } from "vue";
import { useRoute, useRouter } from "vue-router";

export const PRESETS = ["15m", "1h", "6h", "24h", "7d"] as const;
export type Preset = (typeof PRESETS)[number];

const SECONDS: Record<Preset, number> = {
  "15m": 900,
  "1h": 3_600,
  "6h": 21_600,
  "24h": 86_400,
  "7d": 604_800,
};
const LEAST_SECONDS = 120;
/** Round the end of the range, so that several dashboards share one cached response. */
const STEP_SECONDS = 5;

export interface Zoom {
  from: number;
  to: number;
}

/** Parse the timestamps of the URL, in seconds. Null if they are not a valid range. */
export function zoomOf(from: unknown, to: unknown): Zoom | null {
  if (typeof from !== "string" || typeof to !== "string") return null;
  const zoom = { from: Date.parse(from) / 1_000, to: Date.parse(to) / 1_000 };
  return zoom.to - zoom.from >= LEAST_SECONDS ? zoom : null;
}

/** Widen a zoom that is shorter than two buckets of a minute. */
export function widened({ from, to }: Zoom): Zoom {
  const missing = Math.max(0, LEAST_SECONDS - (to - from)) / 2;
  return { from: Math.floor(from - missing), to: Math.ceil(to + missing) };
}

function iso(seconds: number): string {
  return new Date(seconds * 1_000).toISOString().replace(/\.\d+Z$/, "Z");
}

export function useTimeRange() {
  const route = useRoute();
  const router = useRouter();
  const preset = computed<Preset>(
    () => PRESETS.find((each) => each === route.query.range) ?? "1h",
  );
  const zoom = computed(() => zoomOf(route.query.from, route.query.to));

  /** The range as API parameters, computed for each request. */
  function bounds(): { from: string; to: string } {
    const end = zoom.value?.to ?? Math.ceil(Date.now() / 1_000 / STEP_SECONDS) * STEP_SECONDS;
    return { from: iso(zoom.value?.from ?? end - SECONDS[preset.value]), to: iso(end) };
  }

  function choose(chosen: Preset): void {
    const { from: _from, to: _to, range: _range, ...rest } = route.query;
    void router.replace({ query: chosen === "1h" ? rest : { ...rest, range: chosen } });
  }

  function zoomTo(wanted: Zoom): void {
    const { from, to } = widened(wanted);
    void router.push({ query: { ...route.query, from: iso(from), to: iso(to) } });
  }

  /** The previous period of the same length, for comparison. */
  function before(): { from: string; to: string } {
    const [start, end] = [bounds().from, bounds().to].map((each) => Date.parse(each) / 1_000) as [number, number];
    return { from: iso(start - (end - start)), to: iso(start) };
  }

  const key = computed(() => (zoom.value ? [zoom.value.from, zoom.value.to] : [preset.value]));
  return { preset, zoom, key, bounds, before, choose, zoomTo };
}
