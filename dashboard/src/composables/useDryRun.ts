/** What an action would concern, counted before anybody confirms it. */

import { useQuery } from "@tanstack/vue-query";
import { computed } from "vue";

import { unwrap, type Schemas } from "../api/client";
import { exact } from "../lib/format";

type Counted = Schemas["Counted"];

export function useDryRun(
  about: () => unknown,
  count: () => Parameters<typeof unwrap<Counted | Schemas["OperationStarted"]>>[0],
) {
  const query = useQuery({
    queryKey: computed(() => ["dry run", JSON.stringify(about())]),
    queryFn: async () => {
      const found = await unwrap(count());
      if (!("count" in found)) throw new Error("The server did not count.");
      return found;
    },
    // Of a dialog that was open before.
    gcTime: 0,
  });
  /** In words; null: not known yet. */
  const many = computed(() => {
    const found = query.data.value;
    return found ? `${found.complete ? "" : "at least "}${exact(found.count)}` : null;
  });
  return { ...query, many };
}
