/** Who looks at the dashboard, and what that caller may do; the server judges anew in any case. */

import { useQueryClient } from "@tanstack/vue-query";
import { defineStore } from "pinia";
import { computed, ref } from "vue";

import { unwrap, http, ApiError, type Schemas, setBearerToken } from "../api/client";
import { prefix, provider } from "../lib/pageConfig";
import { signOutUrl, finish, type Grant, renew, takeReturn } from "./oidc";
import { useStartedOperations } from "./startedOperations";

export type Permission =
  | "produce"
  | "consume"
  | "browse"
  | "configure"
  | "operate"
  | "destroy"
  | "admin";

/** Of this tab alone, and gone with it. */
const KEY = "queen.token";
const GRANT = "queen.grant";
const MOST_MILLIS = 2 ** 31 - 1;
const ELSEWHERE = "You signed out in another tab.";
const OVER = "You were signed out: this key or token is no longer taken. Sign in again.";

export const useSession = defineStore("session", () => {
  const queries = useQueryClient();
  const work = useStartedOperations();
  const me = ref<Schemas["Me"] | null>(null);
  const phase = ref<"starting" | "signed-out" | "ready" | "failed">("starting");
  const failure = ref<Error | null>(null);
  /** Why somebody is asked to sign in. */
  const reason = ref("");
  const isAnonymous = computed(() => me.value?.kind === "anonymous");
  /** The id of the key that we are signed in with; no secret. */
  const keyId = ref<string | null>(null);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let renewal: Promise<void> | null = null;
  /** The others of this browser at this server. */
  const tabs = new BroadcastChannel(`queen${prefix}`);
  tabs.onmessage = ({ data }: MessageEvent<string>) => {
    if (data === me.value?.name) forget(ELSEWHERE);
  };

  async function become(token: string | null): Promise<void> {
    setBearerToken(token);
    me.value = await unwrap(http.GET("/api/v1/auth/me"));
    keyId.value = /^qk_([^_]+)_/.exec(token ?? "")?.[1] ?? null;
    phase.value = "ready";
    failure.value = null;
    reason.value = "";
  }

  /** Find out who we are; a token that is wrong is forgotten. */
  async function start(): Promise<void> {
    const isNew = await comeBack();
    const token = sessionStorage.getItem(KEY);
    try {
      await become(token);
      wait();
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        if (isNew)
          return forget(`${provider?.name} let you in, but this server does not take its token (${error.message}). Tell whoever runs it: see JWT_AUDIENCE and OIDC_TOKEN.`);
        return token === null ? forget(reason.value) : lapse();
      }
      failure.value = error as Error;
      phase.value = "failed";
    }
  }

  /** Whether the tab came back from the provider with a grant. */
  async function comeBack(): Promise<boolean> {
    const returned = takeReturn();
    if (!returned) return false;
    try {
      keep(await finish(returned));
      return true;
    } catch (error) {
      reason.value = (error as Error).message;
      return false;
    }
  }

  /** Throws an ApiError when the server does not know the token. */
  async function signIn(token: string): Promise<void> {
    try {
      await become(token);
    } catch (error) {
      setBearerToken(null);
      throw error;
    }
    sessionStorage.setItem(KEY, token);
  }

  function keep(grant: Grant): void {
    sessionStorage.setItem(GRANT, JSON.stringify(grant));
    sessionStorage.setItem(KEY, grant.bearer);
  }

  function grantKept(): Grant | null {
    return JSON.parse(sessionStorage.getItem(GRANT) ?? "null") as Grant | null;
  }

  /** Ask for the next token in time, if the provider gives such. */
  function wait(): void {
    clearTimeout(timer);
    const grant = grantKept();
    if (!grant?.refreshToken || grant.renewAt === null) return;
    const millis = Math.min(Math.max(grant.renewAt - Date.now(), 1_000), MOST_MILLIS);
    timer = setTimeout(() => void next().catch(() => undefined), millis);
  }

  /** One at a time: a refresh token may be used once. */
  function next(): Promise<void> {
    renewal ??= (async () => {
      const grant = grantKept();
      if (!grant) throw new Error(OVER);
      const renewed = await renew(grant);
      // Whoever signed out meanwhile stays out.
      if (grantKept()?.bearer !== grant.bearer) throw new Error(OVER);
      keep(renewed);
      setBearerToken(renewed.bearer);
      wait();
    })().finally(() => (renewal = null));
    return renewal;
  }

  /** The server no longer takes the token: perhaps there is a next one. */
  async function lapse(): Promise<void> {
    try {
      await next();
      await become(sessionStorage.getItem(KEY));
    } catch {
      forget(OVER);
    }
  }

  function forget(why = ""): void {
    clearTimeout(timer);
    sessionStorage.removeItem(KEY);
    sessionStorage.removeItem(GRANT);
    setBearerToken(null);
    me.value = null;
    keyId.value = null;
    reason.value = why;
    phase.value = "signed-out";
    // The next to sign in here is perhaps somebody else.
    queries.clear();
    work.forget();
  }

  /** Here, in other tabs of the same caller, and at the provider if it has a page for it. */
  function signOut(): void {
    const grant = grantKept();
    const address = grant && provider?.endpoints ? signOutUrl(grant) : null;
    tabs.postMessage(me.value?.name);
    forget();
    if (address) location.assign(address);
  }

  function may(permission: Permission): boolean {
    return me.value?.permissions.includes(permission) ?? false;
  }

  return { me, keyId, phase, failure, reason, isAnonymous, start, signIn, signOut, lapse, may };
});
