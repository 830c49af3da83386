/** How this person likes it; kept in this browser. */

import { useLocalStorage, usePreferredDark } from "@vueuse/core";
import { defineStore } from "pinia";
import { computed, watchEffect } from "vue";

export type Theme = "system" | "light" | "dark";

export const usePreferences = defineStore("preferences", () => {
  const theme = useLocalStorage<Theme>("queen.theme", "system");
  const isDense = useLocalStorage("queen.dense", false);
  const isUtc = useLocalStorage("queen.utc", false);
  const prefersDark = usePreferredDark();
  const shown = computed(() =>
    theme.value === "system" ? (prefersDark.value ? "dark" : "light") : theme.value,
  );
  const rowHeight = computed(() => (isDense.value ? 30 : 40));
  watchEffect(() => (document.documentElement.dataset.theme = shown.value));
  return { theme, shown, isDense, isUtc, rowHeight };
});
