/** What is masked, revealed by hand: each time is logged, so it is not asked for again with the figures. */

import { shallowRef, watch } from "vue";

/** Revealed until the key changes, which says what is looked at. */
export function useReveal<T>(key: () => string, read: () => Promise<T>) {
  const revealed = shallowRef<T | null>(null);
  watch(key, () => (revealed.value = null));
  async function reveal(): Promise<void> {
    const asked = key();
    const found = await read();
    if (asked === key()) revealed.value = found;
  }
  return { revealed, reveal };
}
