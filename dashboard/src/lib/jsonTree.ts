/** State that the nodes of a JSON tree share: expanded nodes and search matches. */

import type { InjectionKey, Ref } from "vue";

import { childrenOf, type Json } from "./json";

export interface TreeState {
  found: Ref<ReadonlySet<Json>>;
  /** Ancestors of matches. */
  leading: Ref<ReadonlySet<Json>>;
  /** Nodes that the user expanded or collapsed. Others depend on their depth. */
  turned: Ref<ReadonlyMap<Json, boolean>>;
  turn: (json: Json, isOpen: boolean) => void;
}
export const TREE: InjectionKey<TreeState> = Symbol("tree");

/** Find values whose key or text contains the words, ignoring case, and their ancestors. */
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
