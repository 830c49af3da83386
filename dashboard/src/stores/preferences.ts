/** How this person likes it; kept in this browser. */

import { useLocalStorage, usePreferredDark } from "@vueuse/core";
import { defineStore } from "pinia";
import { computed, watchEffect } from "vue";

export type Theme = "system" | "light" | "dark";

/** How often figures are asked for while messages move. */
export const INTERVALS = [
  [5, "Figures every 5 seconds"],
  [15, "Every 15 seconds"],
  [60, "Every minute"],
] as const;

export const usePreferences = defineStore("preferences", () => {
  const theme = useLocalStorage<Theme>("queen.theme", "system");
  const isDense = useLocalStorage("queen.dense", false);
  const isUtc = useLocalStorage("queen.utc", false);
  /** Keys that stand for themselves: whoever speaks to the machine, or shakes, may not want them. */
  const hasKeys = useLocalStorage("queen.keys", true);
  const interval = useLocalStorage<number>("queen.interval", INTERVALS[0][0]);
  const seconds = computed(() => INTERVALS.find(([each]) => each === interval.value)?.[0] ?? INTERVALS[0][0]);
  const prefersDark = usePreferredDark();
  const shown = computed(() =>
    theme.value === "system" ? (prefersDark.value ? "dark" : "light") : theme.value,
  );
  const rowHeight = computed(() => (isDense.value ? 30 : 40));
  watchEffect(() => (document.documentElement.dataset.theme = shown.value));
  return { theme, shown, isDense, isUtc, hasKeys, interval, seconds, rowHeight };
});
