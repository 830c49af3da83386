/** What the values of a JSON tree share: which are open, which were found. */

import type { InjectionKey, Ref } from "vue";

import { childrenOf, type Json } from "./json";

export interface TreeState {
  found: Ref<ReadonlySet<Json>>;
  /** Those that lead to something found. */
  leading: Ref<ReadonlySet<Json>>;
  /** Opened or closed by hand; the rest is as deep as it lies. */
  turned: Ref<ReadonlyMap<Json, boolean>>;
  turn: (json: Json, isOpen: boolean) => void;
}
export const TREE: InjectionKey<TreeState> = Symbol("tree");

/** Values whose key or text holds the words, in any case, and all that lead to them. */
export function searchTree(root: Json, words: string): { found: Set<Json>; leading: Set<Json> } {
  const wanted = words.trim().toLowerCase();
  const found = new Set<Json>();
  const leading = new Set<Json>();

  function look(json: Json, key: string): boolean {
    const text = "text" in json ? json.text : "";
    const isFound = key.toLowerCase().includes(wanted) || text.toLowerCase().includes(wanted);
    if (isFound) found.add(json);
    let leads = false;
    for (const [step, child] of childrenOf(json)) leads = look(child, String(step)) || leads;
    if (leads) leading.add(json);
    return leads || isFound;
  }

  if (wanted) look(root, "");
  return { found, leading };
}
