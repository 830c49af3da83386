/** What is done by hand: whether it goes on, why it failed, and the same once more. */

import { ref, shallowRef } from "vue";

export function useAction<A extends unknown[]>(work: (...asked: A) => Promise<unknown>) {
  const isRunning = ref(false);
  const failure = shallowRef<Error | null>(null);
  let again: () => Promise<void>;
  async function attempt(...asked: A): Promise<void> {
    again = () => attempt(...asked);
    isRunning.value = true;
    failure.value = null;
    try {
      await work(...asked);
    } catch (error) {
      failure.value = error as Error;
    } finally {
      isRunning.value = false;
    }
  }
  return { attempt, again: () => again(), isRunning, failure };
}
