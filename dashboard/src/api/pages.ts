/** Parse the paginated lists of the API, with every value as it was written. */

import { type Json, member, NULL, plainOf } from "../lib/json";

/** The items of one member of a response, or none if it is not an array. */
export function itemsOf(json: Json, key: string): Json[] {
  const found = member(json, key);
  return found?.kind === "array" ? found.items : [];
}

/** The cursor of the next page, or null on the last one. */
export function nextCursorOf(json: Json): string | null {
  return plainOf(member(json, "nextCursor") ?? NULL) as string | null;
}

/** How many rows the server searched, and whether that was all of them. */
export function scanOf(json: Json): { scanned: number; complete: boolean } {
  return { scanned: Number(member(json, "scanned")?.raw), complete: member(json, "complete")?.raw === "true" };
}
