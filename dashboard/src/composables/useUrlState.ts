/** What a page shows is in its URL: filters, sort, tab and range survive refresh and can be sent. */

import { refDebounced } from "@vueuse/core";
import { computed, type Ref, ref, watch, type WritableComputedRef } from "vue";
import { type LocationQueryRaw, type RouteLocationNormalized, type Router, useRoute, useRouter } from "vue-router";

export const TYPING_MILLIS = 200;

/** Changes of one moment are one change of the URL: each for itself would undo the others. */
let changes: LocationQueryRaw | null = null;

/** Where somebody goes who leaves the page; null while nobody does. */
let next: string | null = null;

/** What was typed just before a page is left must not call back who leaves while the next page loads. */
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

/** One parameter of the URL; its default is left out. */
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

/** One parameter that has a few values; others in the URL count as the first. */
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

/** What is typed into a filter counts a moment later; what the URL says otherwise is shown. */
export function useTypedFilter(parameter: WritableComputedRef<string>): Ref<string> {
  const typed = ref(parameter.value);
  watch(refDebounced(typed, TYPING_MILLIS), (value) => (parameter.value = value));
  watch(parameter, (value) => (typed.value = value));
  return typed;
}
