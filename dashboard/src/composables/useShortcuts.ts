/** Keyboard shortcuts, and the list that the help dialog shows. */

import { useEventListener } from "@vueuse/core";
import { ref } from "vue";
import { useRouter } from "vue-router";

import { PAGES } from "../navigation";
import { useLive } from "../stores/live";
import { usePreferences } from "../stores/preferences";
import { actionTexts, texts } from "../text/layout";

export const SHORTCUTS = [
  ["⌘K or Ctrl K", texts.search],
  ["/", "Search this list"],
  ...PAGES.map((page) => [`g ${page.key}`, page.label] as const),
  ["j, k", "Next row, previous row"],
  ["Enter", "Open row"],
  ["p", "Pause or resume live updates"],
  ["?", actionTexts.shortcuts],
  ["Esc", "Close"],
] as const;

const GOES = new Map(PAGES.map((page) => [page.key, page.name]));
const SEQUENCE_MILLIS = 1_000;

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && target.closest("input, textarea, select, [role=dialog], [role=menu]") !== null
  );
}

/** Move the focus to the next or previous row. */
function step(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")];
  const at = rows.findIndex((row) => row === document.activeElement);
  rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by]?.focus();
}

export function useShortcuts() {
  const router = useRouter();
  const live = useLive();
  const preferences = usePreferences();
  const isPaletteOpen = ref(false);
  const isHelpOpen = ref(false);
  let goesUntil = 0;

  function plain(key: string): boolean {
    const goes = GOES.get(key);
    if (goes !== undefined && Date.now() < goesUntil) {
      goesUntil = 0;
      void router.push({ name: goes });
      return true;
    }
    goesUntil = key === "g" ? Date.now() + SEQUENCE_MILLIS : 0;
    switch (key) {
      case "/": {
        const search = document.querySelector<HTMLElement>("[data-search]");
        search?.focus();
        return search !== null;
      }
      case "j":
      case "k":
        step(key === "j" ? 1 : -1);
        return true;
      case "p":
        live.pause();
        return true;
      case "?":
        isHelpOpen.value = true;
        return true;
      default:
        return false;
    }
  }

  useEventListener(document, "keydown", (event) => {
    const isCommand = event.metaKey || event.ctrlKey;
    if (isCommand && event.key.toLowerCase() === "k") {
      event.preventDefault();
      isPaletteOpen.value = true;
    } else if (preferences.hasKeys && !isCommand && !event.altKey && !isTyping(event.target)) {
      if (plain(event.key)) event.preventDefault();
    }
  });

  return { isPaletteOpen, isHelpOpen };
}
