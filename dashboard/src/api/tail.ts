/** What came to a queue since the last look; nothing is taken. */

import type { Info } from "./messages";

/** Pushes become visible by their commits, not by the times they carry. */
const OVERLAP_MILLIS = 5_000;
const MOST_PARTITIONS = 100_000;

export class Tail {
  private places = new Map<string, number>();
  private newest = 0;

  /** From when on the next look must read. */
  get since(): string | undefined {
    return this.newest ? new Date(this.newest - OVERLAP_MILLIS).toISOString() : undefined;
  }

  /** All up to there was read, also what was not asked for. */
  reach(at: string | null | undefined): void {
    if (at) this.newest = Math.max(this.newest, Date.parse(at));
  }

  /** Of what was read, newest first, what is new, newest first; all of it is known from now on. */
  take(rows: readonly Info[]): Info[] {
    const fresh = rows.filter(
      (row) => row.offset !== null && row.offset > (this.places.get(row.partitionId) ?? -1),
    );
    for (const row of fresh) {
      this.places.set(row.partitionId, Math.max(row.offset ?? 0, this.places.get(row.partitionId) ?? -1));
      this.reach(row.createdAt);
    }
    // The ones that were met first are forgotten first.
    for (const place of this.places.keys()) {
      if (this.places.size <= MOST_PARTITIONS) break;
      this.places.delete(place);
    }
    return fresh;
  }
}
