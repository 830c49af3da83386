/** Find the messages that arrived since the last read, without consuming them. */

import type { Info } from "./messages";

/** Read some seconds twice, because pushes become visible in commit order and not in time order. */
const OVERLAP_MILLIS = 5_000;
const MOST_PARTITIONS = 100_000;

export class Tail {
  private places = new Map<string, number>();
  private newest = 0;

  /** Start time of the next read. */
  get since(): string | undefined {
    return this.newest ? new Date(this.newest - OVERLAP_MILLIS).toISOString() : undefined;
  }

  /** Advance the position, for example past messages that the filter excludes. */
  reach(at: string | null | undefined): void {
    if (at) this.newest = Math.max(this.newest, Date.parse(at));
  }

  /** Return the rows that are new, newest first, and remember them. */
  take(rows: readonly Info[]): Info[] {
    const fresh = rows.filter(
      (row) => row.offset !== null && row.offset > (this.places.get(row.partitionId) ?? -1),
    );
    for (const row of fresh) {
      this.places.set(row.partitionId, Math.max(row.offset ?? 0, this.places.get(row.partitionId) ?? -1));
      this.reach(row.createdAt);
    }
    // Forget the oldest partitions first.
    for (const place of this.places.keys()) {
      if (this.places.size <= MOST_PARTITIONS) break;
      this.places.delete(place);
    }
    return fresh;
  }
}
