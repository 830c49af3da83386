/** Display preferences, kept in the local storage of this browser. */

import { useLocalStorage, usePreferredDark } from "@vueuse/core";
import { defineStore } from "pinia";
import { computed, watchEffect } from "vue";

import { REFRESH_INTERVALS } from "../text/layout";

export type Theme = "system" | "light" | "dark";

export const usePreferences = defineStore("preferences", () => {
  const theme = useLocalStorage<Theme>("queen.theme", "system");
  const isDense = useLocalStorage("queen.dense", false);
  const isUtc = useLocalStorage("queen.utc", false);
  /** Single-key shortcuts can be turned off, because speech input and tremor trigger them by accident. */
  const hasKeys = useLocalStorage("queen.keys", true);
  const interval = useLocalStorage<number>("queen.interval", REFRESH_INTERVALS[0][0]);
  const seconds = computed(() => REFRESH_INTERVALS.find(([each]) => each === interval.value)?.[0] ?? REFRESH_INTERVALS[0][0]);
  const prefersDark = usePreferredDark();
  const shown = computed(() =>
    theme.value === "system" ? (prefersDark.value ? "dark" : "light") : theme.value,
  );
  const rowHeight = computed(() => (isDense.value ? 30 : 40));
  watchEffect(() => (document.documentElement.dataset.theme = shown.value));
  return { theme, shown, isDense, isUtc, hasKeys, interval, seconds, rowHeight };
});
