/**
 * Live updates: one WebSocket for the whole page, and the interval at which queries poll.
 *
 * A pause survives focus changes and reloads. A hidden tab sends no requests.
 */

import { type Query, useQueryClient } from "@tanstack/vue-query";
import { useDocumentVisibility, useIntervalFn, useSessionStorage } from "@vueuse/core";
import { defineStore } from "pinia";
import { computed, ref, shallowReactive, shallowRef, watch } from "vue";

import { http, type Schemas, unwrap } from "../api/client";
import { prefix } from "../lib/pageConfig";
import { usePreferences } from "./preferences";
import { useSession } from "./session";

export interface Processed {
  queue: string;
  pushed: number;
  popped: number;
  acked: number;
  nacked: number;
  deadLettered: number;
}

export interface Stats {
  messagesPerSecond: number | null;
  processes: number;
  /** Null for callers with scopes, like the fields below, because they reveal the activity of others. */
  waiters: number | null;
  poolSize: number | null;
  idleConnections: number | null;
  waitingRequests: number | null;
  eventLoopLagSeconds: number | null;
  version: string;
  buffer: Schemas["Buffer"];
}

type Frame =
  | { event: "message.processed"; data: { queues: Processed[] } }
  | { event: "system.stats"; data: Stats }
  | { event: "operation.updated"; data: Schemas["Operation"] };

/** Shortest polling interval while the socket is open and reports no activity. */
const QUIET_MILLIS = 15_000;
/** Tolerance for frames that arrive before their interval has passed. */
const EARLY_MILLIS = 500;
/** The longest frame interval that the server accepts. */
const MOST_SECONDS = 15;
const STALE_MILLIS = 30_000;
const MOST_RETRY_MILLIS = 15_000;
const MOST_PAGES = 2;
const EVENTS: Frame["event"][] = ["message.processed", "system.stats", "operation.updated"];

/** Query key of the failover buffer. */
export const BUFFER = ["buffer"];

/** Long lists refresh only on request, so that the cost of a refresh does not grow with scrolling. */
export function isRefreshed({ state }: { state: { data?: unknown } }): boolean {
  const { pages } = (state.data ?? {}) as { pages?: unknown };
  return !Array.isArray(pages) || pages.length <= MOST_PAGES;
}

/** A refresh would cancel the page that is being loaded, and the list would end there. */
function isLoadingMore({ state }: Query): boolean {
  return state.fetchStatus === "fetching" && state.fetchMeta !== null;
}

export const useLive = defineStore("live", () => {
  const session = useSession();
  const preferences = usePreferences();
  const queries = useQueryClient();
  const visibility = useDocumentVisibility();
  const isPaused = useSessionStorage("queen.paused", false);
  const isOpen = ref(false);
  const respondedAt = ref(Date.now());
  const now = ref(Date.now());
  const operations = shallowReactive(new Map<string, Schemas["Operation"]>());
  const processed = shallowRef<Processed[]>([]);
  const stats = shallowRef<Stats | null>(null);

  const isActive = computed(
    () => session.phase === "ready" && visibility.value === "visible" && !isPaused.value,
  );
  const state = computed(() => {
    if (isPaused.value) return "paused";
    return isOpen.value ? "live" : "polling";
  });
  /** Polling interval while messages move, or while the socket is closed. */
  const pollMillis = computed(() => preferences.seconds * 1_000);
  const isStale = computed(
    () => isActive.value && now.value - respondedAt.value > Math.max(STALE_MILLIS, pollMillis.value * 2),
  );
  const interval = computed(() => {
    if (!isActive.value) return false;
    return isOpen.value ? Math.max(QUIET_MILLIS, pollMillis.value) : pollMillis.value;
  });

  let socket: WebSocket | null = null;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let retryMillis = 1_000;
  let refreshedAt = 0;

  /** Record that the server responded, so that the data counts as current. */
  function markFresh(): void {
    respondedAt.value = Date.now();
  }

  /** Refetch current data after messages moved, at most once per polling interval. */
  function refresh(): void {
    if (Date.now() - refreshedAt < pollMillis.value - EARLY_MILLIS) return;
    refreshedAt = Date.now();
    const predicate = (query: Query): boolean => isRefreshed(query) && !isLoadingMore(query);
    void queries.invalidateQueries({ queryKey: ["now"], predicate });
  }

  function take(frame: Frame): void {
    markFresh();
    retryMillis = 1_000;
    switch (frame.event) {
      case "message.processed":
        processed.value = frame.data.queues;
        refresh();
        break;
      case "system.stats":
        stats.value = frame.data;
        queries.setQueryData(BUFFER, frame.data.buffer);
        break;
      case "operation.updated":
        operations.set(frame.data.id, frame.data);
        break;
    }
  }

  async function address(): Promise<string> {
    const url = new URL(`${prefix}/ws/dashboard`, location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    if (!session.isAnonymous) {
      const { ticket } = await unwrap(http.POST("/api/v1/auth/ticket"));
      url.searchParams.set("ticket", ticket);
    }
    return url.href;
  }

  /** Ask for frames only as often as the page uses them. */
  function subscribe(): void {
    if (!isOpen.value) return;
    const seconds = Math.min(preferences.seconds, MOST_SECONDS);
    socket?.send(JSON.stringify({ subscribe: EVENTS, seconds }));
  }

  async function open(): Promise<void> {
    clearTimeout(retry);
    try {
      const url = await address();
      if (!isActive.value || socket !== null) return;
      const opened = new WebSocket(url);
      socket = opened;
      opened.onopen = () => {
        isOpen.value = true;
        subscribe();
        markFresh();
      };
      opened.onmessage = (message: MessageEvent<string>) => take(JSON.parse(message.data) as Frame);
      opened.onclose = () => {
        if (socket !== opened) return;
        close();
        again();
      };
    } catch {
      again();
    }
  }

  function again(): void {
    if (!isActive.value) return;
    clearTimeout(retry);
    retry = setTimeout(open, retryMillis);
    retryMillis = Math.min(retryMillis * 2, MOST_RETRY_MILLIS);
  }

  function close(): void {
    clearTimeout(retry);
    const closed = socket;
    socket = null;
    isOpen.value = false;
    closed?.close();
  }

  watch(
    isActive,
    (active) => {
      if (!active) return close();
      markFresh();
      void open();
      // Searches are not repeated, because a search in revealed payloads adds an audit record each time.
      void queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "search" });
    },
    { immediate: true },
  );
  watch(() => preferences.seconds, subscribe);
  useIntervalFn(() => (now.value = Date.now()), 1_000);

  function pause(): void {
    isPaused.value = !isPaused.value;
  }

  return {
    state,
    isPaused,
    isStale,
    interval,
    respondedAt,
    now,
    operations,
    processed,
    stats,
    markFresh,
    pause,
  };
});
