/** Reveal masked payloads on request. Polling excludes them because the audit log records each reveal. */

import { shallowRef, watch } from "vue";

/** Keep the revealed data until the key changes. The key identifies the shown record. */
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
