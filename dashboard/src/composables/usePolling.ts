/** Queries that repeat while live updates are on. */

import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/vue-query";
import { computed, type MaybeRefOrGetter, type Ref, toValue } from "vue";

import { http, unwrap } from "../api/client";
import { BUFFER, isRefreshed, useLive } from "../stores/live";

type Key = readonly unknown[];

export function usePolling<T>(
  key: MaybeRefOrGetter<Key>,
  read: (signal: AbortSignal) => Promise<T>,
  enabled: MaybeRefOrGetter<boolean> = true,
) {
  const live = useLive();
  return useQuery({
    queryKey: computed(() => toValue(key)),
    queryFn: async ({ signal }) => {
      const found = await read(signal);
      live.markFresh();
      return found;
    },
    enabled: computed(() => toValue(enabled)),
    refetchInterval: computed(() => live.interval),
    placeholderData: keepPreviousData,
  });
}

/** The failover buffer. Polled once, then updated by the WebSocket. */
export function useFileBuffer() {
  return usePolling(BUFFER, (signal) => unwrap(http.GET("/api/v1/status/buffers", { signal })));
}

interface Page<T> {
  rows: T[];
  nextCursor: string | null;
}

interface Manner {
  enabled?: () => boolean;
  /** If false, the results do not refresh by themselves. */
  isLive?: () => boolean;
}

/** The part of a paginated query that tables use. */
export interface PagedList<T> {
  rows: Readonly<Ref<T[]>>;
  error: Readonly<Ref<Error | null>>;
  isSuccess: Readonly<Ref<boolean>>;
  hasNextPage: Readonly<Ref<boolean>>;
  isFetchingNextPage: Readonly<Ref<boolean>>;
  fetchNextPage: () => unknown;
  refetch: () => unknown;
}

/** A paginated list. All loaded pages are refreshed together. */
export function usePolledPages<P extends Page<unknown>>(
  key: MaybeRefOrGetter<Key>,
  read: (cursor: string | undefined, signal: AbortSignal) => Promise<P>,
  { enabled = () => true, isLive = () => true }: Manner = {},
) {
  const live = useLive();
  const query = useInfiniteQuery({
    queryKey: computed(() => toValue(key)),
    queryFn: async ({ pageParam, signal }) => {
      const found = await read(pageParam, signal);
      live.markFresh();
      return found;
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextCursor ?? undefined,
    refetchInterval: computed(() => {
      const every = isLive() ? live.interval : false;
      return (asked: { state: { data?: unknown } }) => (isRefreshed(asked) ? every : false);
    }),
    enabled: computed(enabled),
    placeholderData: keepPreviousData,
  });
  const rows = computed(
    () => (query.data.value?.pages.flatMap((page) => page.rows) ?? []) as P["rows"],
  );
  return { ...query, rows };
}
