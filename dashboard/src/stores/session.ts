/** The signed-in user and their permissions. The server checks every request again. */

import { useQueryClient } from "@tanstack/vue-query";
import { defineStore } from "pinia";
import { computed, ref } from "vue";

import { ApiError, http, type Schemas, setBearerToken, unwrap } from "../api/client";
import { prefix, provider } from "../lib/pageConfig";
import { texts } from "../text/signIn";
import { finish, type Grant, renew, signOutUrl, takeReturn } from "./oidc";
import { useStartedOperations } from "./startedOperations";

export type Permission =
  | "produce"
  | "consume"
  | "browse"
  | "configure"
  | "operate"
  | "destroy"
  | "admin";

/** Session storage keys: each tab has its own, and closing the tab deletes them. */
const KEY = "queen.token";
const GRANT = "queen.grant";
const MOST_MILLIS = 2 ** 31 - 1;

export const useSession = defineStore("session", () => {
  const queries = useQueryClient();
  const work = useStartedOperations();
  const me = ref<Schemas["Me"] | null>(null);
  const phase = ref<"starting" | "signed-out" | "ready" | "failed">("starting");
  const failure = ref<Error | null>(null);
  /** Why the user must sign in, shown on the sign-in page. */
  const reason = ref("");
  const isAnonymous = computed(() => me.value?.kind === "anonymous");
  /** The ID of the API key in use. It is not secret. */
  const keyId = ref<string | null>(null);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let renewal: Promise<void> | null = null;
  /** Reaches the other tabs of this browser that use the same server. */
  const tabs = new BroadcastChannel(`queen${prefix}`);
  tabs.onmessage = ({ data }: MessageEvent<string>) => {
    if (data === me.value?.name) forget(texts.signedOutElsewhere);
  };

  async function become(token: string | null): Promise<void> {
    setBearerToken(token);
    me.value = await unwrap(http.GET("/api/v1/auth/me"));
    keyId.value = /^qk_([^_]+)_/.exec(token ?? "")?.[1] ?? null;
    phase.value = "ready";
    failure.value = null;
    reason.value = "";
  }

  /** Load the current user. An invalid token is deleted. */
  async function start(): Promise<void> {
    const isNew = await comeBack();
    const token = sessionStorage.getItem(KEY);
    try {
      await become(token);
      wait();
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        if (isNew)
          return forget(texts.rejected(provider?.name, error.message));
        return token === null ? forget(reason.value) : lapse();
      }
      failure.value = error as Error;
      phase.value = "failed";
    }
  }

  /** Finish a sign-in at the provider. True if it returned a grant. */
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

  /** Throws an ApiError if the server rejects the token. */
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

  /** Renew the token before it expires, if the provider issued a refresh token. */
  function wait(): void {
    clearTimeout(timer);
    const grant = grantKept();
    if (!grant?.refreshToken || grant.renewAt === null) return;
    const millis = Math.min(Math.max(grant.renewAt - Date.now(), 1_000), MOST_MILLIS);
    timer = setTimeout(() => void next().catch(() => undefined), millis);
  }

  /** Runs once at a time because a refresh token is valid for one use. */
  function next(): Promise<void> {
    renewal ??= (async () => {
      const grant = grantKept();
      if (!grant) throw new Error(texts.expired);
      const renewed = await renew(grant);
      // The user may have signed out during the request and must stay signed out.
      if (grantKept()?.bearer !== grant.bearer) throw new Error(texts.expired);
      keep(renewed);
      setBearerToken(renewed.bearer);
      wait();
    })().finally(() => (renewal = null));
    return renewal;
  }

  /** The server rejected the token. Try to renew it before signing out. */
  async function lapse(): Promise<void> {
    try {
      await next();
      await become(sessionStorage.getItem(KEY));
    } catch {
      forget(texts.expired);
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
    // The next user of this tab must not see cached data.
    queries.clear();
    work.forget();
  }

  /** Sign out in all tabs of this user, and at the provider if it has a logout page. */
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
