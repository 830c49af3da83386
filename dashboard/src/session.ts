/** Who looks at the dashboard, and what that caller may do; the server judges anew in any case. */

import { defineStore } from "pinia";
import { computed, ref } from "vue";

import { ask, http, Refusal, type Schemas, speakAs } from "./api";

export type Permission =
  | "produce"
  | "consume"
  | "browse"
  | "configure"
  | "operate"
  | "destroy"
  | "admin";

const KEY = "queen.token";

export const useSession = defineStore("session", () => {
  const me = ref<Schemas["Me"] | null>(null);
  const phase = ref<"starting" | "signed-out" | "ready" | "failed">("starting");
  const failure = ref<Error | null>(null);
  const isAnonymous = computed(() => me.value?.kind === "anonymous");
  /** The id of the key that we are signed in with; no secret. */
  const keyId = ref<string | null>(null);

  async function become(token: string | null): Promise<void> {
    speakAs(token);
    me.value = await ask(http.GET("/api/v1/auth/me"));
    keyId.value = /^qk_([^_]+)_/.exec(token ?? "")?.[1] ?? null;
    phase.value = "ready";
    failure.value = null;
  }

  /** Find out who we are; a token that is wrong is forgotten. */
  async function start(): Promise<void> {
    try {
      await become(sessionStorage.getItem(KEY));
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) return signOut();
      failure.value = error as Error;
      phase.value = "failed";
    }
  }

  /** Throws a Refusal when the server does not know the token. */
  async function signIn(token: string): Promise<void> {
    try {
      await become(token);
    } catch (error) {
      speakAs(null);
      throw error;
    }
    // Of this tab alone, and gone with it.
    sessionStorage.setItem(KEY, token);
  }

  function signOut(): void {
    sessionStorage.removeItem(KEY);
    speakAs(null);
    me.value = null;
    phase.value = "signed-out";
  }

  function may(permission: Permission): boolean {
    return me.value?.permissions.includes(permission) ?? false;
  }

  return { me, keyId, phase, failure, isAnonymous, start, signIn, signOut, may };
});
