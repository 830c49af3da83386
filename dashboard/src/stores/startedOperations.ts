/** Operations started in this tab, listed until the user dismisses them. */

import { defineStore } from "pinia";
import { shallowRef } from "vue";

import type { Schemas } from "../api/client";

export type Operation = Schemas["Operation"];

export const useStartedOperations = defineStore("startedOperations", () => {
  const followed = shallowRef<Operation[]>([]);

  function follow(operation: Operation): void {
    followed.value = [...followed.value, operation];
  }

  function dismiss(id: string): void {
    followed.value = followed.value.filter((each) => each.id !== id);
  }

  function forget(): void {
    followed.value = [];
  }

  return { followed, follow, dismiss, forget };
});
