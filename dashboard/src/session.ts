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

  /** Find out who we are; a token that is wrong is forgotten. */
  async function start(): Promise<void> {
    speakAs(sessionStorage.getItem(KEY));
    try {
      me.value = await ask(http.GET("/api/v1/auth/me"));
      phase.value = "ready";
      failure.value = null;
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) return signOut();
      failure.value = error as Error;
      phase.value = "failed";
    }
  }

  /** Throws a Refusal when the server does not know the token. */
  async function signIn(token: string): Promise<void> {
    speakAs(token);
    try {
      me.value = await ask(http.GET("/api/v1/auth/me"));
    } catch (error) {
      speakAs(null);
      throw error;
    }
    // Of this tab alone, and gone with it.
    sessionStorage.setItem(KEY, token);
    phase.value = "ready";
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

  return { me, phase, failure, isAnonymous, start, signIn, signOut, may };
});
