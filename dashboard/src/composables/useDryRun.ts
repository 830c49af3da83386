/** Count the affected messages before the user confirms an action. */

import { useQuery } from "@tanstack/vue-query";
import { computed } from "vue";

import { type Schemas, unwrap } from "../api/client";
import { exact } from "../lib/format";
import { commonTexts } from "../text/common";
import { errorTexts } from "../text/errors";

type Counted = Schemas["Counted"];

export function useDryRun(
  about: () => unknown,
  count: () => Parameters<typeof unwrap<Counted | Schemas["OperationStarted"]>>[0],
) {
  const query = useQuery({
    queryKey: computed(() => ["dry run", JSON.stringify(about())]),
    queryFn: async () => {
      const found = await unwrap(count());
      if (!("count" in found)) throw new Error(errorTexts.noCount);
      return found;
    },
    // A reopened dialog must not show the old count.
    gcTime: 0,
  });
  /** The count as text. Null while loading. */
  const many = computed(() => {
    const found = query.data.value;
    if (!found) return null;
    return found.complete ? exact(found.count) : commonTexts.atLeast(exact(found.count));
  });
  return { ...query, many };
}
