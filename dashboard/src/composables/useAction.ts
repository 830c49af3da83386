/** Run an action of the user: its progress, its error, and how to repeat it. */

import { ref, shallowRef } from "vue";

export function useAction<A extends unknown[]>(action: (...parameters: A) => Promise<unknown>) {
  const isRunning = ref(false);
  const error = shallowRef<Error | null>(null);
  let repeat: () => Promise<void>;
  async function run(...parameters: A): Promise<void> {
    repeat = () => run(...parameters);
    isRunning.value = true;
    error.value = null;
    try {
      await action(...parameters);
    } catch (thrown) {
      error.value = thrown as Error;
    } finally {
      isRunning.value = false;
    }
  }
  return { run, retry: () => repeat(), isRunning, error };
}
