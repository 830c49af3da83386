/** Filters, sort order, tab and time range are kept in the URL, so that reloads and shared links keep them. */

import { refDebounced } from "@vueuse/core";
import { computed, type Ref, ref, watch, type WritableComputedRef } from "vue";
import { type LocationQuery, type LocationQueryRaw, type RouteLocationNormalized, type Router, useRoute, useRouter } from "vue-router";

export const TYPING_MILLIS = 200;

/** Changes in the same tick are merged, because separate navigations would overwrite each other. */
let changes: LocationQueryRaw | null = null;

/** The page that is being opened, or null. */
let next: string | null = null;

/** Track navigation, so that a delayed filter change does not bring the user back to the old page. */
export function watchNavigation(router: Router): void {
  const arrived = (to: RouteLocationNormalized): void => {
    if (to.fullPath === next) next = null;
  };
  router.beforeEach((to, from) => {
    next = to.path === from.path ? null : to.fullPath;
  });
  router.afterEach(arrived);
  router.onError((_error, to) => arrived(to));
}

function change(router: Router, name: string, value: string | undefined): void {
  if (changes === null) {
    changes = {};
    queueMicrotask(() => {
      const query = { ...router.currentRoute.value.query, ...changes };
      changes = null;
      if (next === null) void router.replace({ query });
    });
  }
  changes[name] = value;
}

/** A URL parameter. The default value is omitted from the URL. */
export function useUrlParameter(name: string, initial = ""): WritableComputedRef<string> {
  const route = useRoute();
  const router = useRouter();
  return computed({
    get: () => {
      const value = route.query[name];
      return typeof value === "string" ? value : initial;
    },
    set: (value) => change(router, name, value === initial ? undefined : value),
  });
}

/** A URL parameter with fixed choices. Unknown values fall back to the first. */
export function useUrlChoice<T extends string>(
  name: string,
  choices: readonly [T, ...T[]],
): WritableComputedRef<T> {
  const parameter = useUrlParameter(name, choices[0]);
  return computed({
    get: () => choices.find((each) => each === parameter.value) ?? choices[0],
    set: (value) => (parameter.value = value),
  });
}

/** The query that selects a tab. Filters are per tab, so only the `kept` parameters stay. */
export function tabQuery<T extends string>(
  query: LocationQuery,
  tabs: readonly T[],
  name: T,
  kept: readonly string[] = [],
): LocationQueryRaw {
  const rest = Object.fromEntries(kept.map((each) => [each, query[each]]).filter(([, value]) => value !== undefined));
  return name === tabs[0] ? rest : { ...rest, tab: name };
}

/** The text of a filter field. It updates the URL after a short delay, and follows the URL. */
export function useTypedFilter(parameter: WritableComputedRef<string>): Ref<string> {
  const typed = ref(parameter.value);
  watch(refDebounced(typed, TYPING_MILLIS), (value) => (parameter.value = value));
  watch(parameter, (value) => (typed.value = value));
  return typed;
}
