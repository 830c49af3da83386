/** Compare two payloads, path by path. */

import { childrenOf, type Json, pathOf } from "./json";

export interface Difference {
  path: string;
  before: string | null;
  after: string | null;
}

/** List the differences in the order of the first payload, then the additions of the second. */
export function differences(before: Json, after: Json, steps: (string | number)[] = []): Difference[] {
  if (before.kind !== after.kind || "text" in before || "text" in after) {
    const same = before.kind === after.kind && "text" in before && "text" in after && before.text === after.text;
    return same ? [] : [{ path: pathOf(steps), before: before.raw, after: after.raw }];
  }
  const found: Difference[] = [];
  const rest = new Map(childrenOf(after));
  for (const [step, child] of childrenOf(before)) {
    const other = rest.get(step);
    rest.delete(step);
    if (other) found.push(...differences(child, other, [...steps, step]));
    else found.push({ path: pathOf([...steps, step]), before: child.raw, after: null });
  }
  for (const [step, child] of rest) {
    found.push({ path: pathOf([...steps, step]), before: null, after: child.raw });
  }
  return found;
}
