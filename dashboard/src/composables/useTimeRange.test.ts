import { describe, expect, it } from "vitest";

import { widened, zoomOf } from "./useTimeRange";

describe("the time range of the URL", () => {
  it("is two timestamps in order", () => {
    expect(zoomOf("2030-01-01T00:00:00Z", "2030-01-01T01:00:00Z")?.to).toBe(1_893_459_600);
  });

  it.each([
    [undefined, undefined],
    ["x", "y"],
    ["2030-01-01T01:00:00Z", "2030-01-01T00:00:00Z"],
    [["2030-01-01T00:00:00Z"], "2030-01-01T01:00:00Z"],
  ])("is ignored if it is %s to %s", (from, to) => {
    expect(zoomOf(from, to)).toBeNull();
  });

  it("is never shorter than two buckets", () => {
    expect(widened({ from: 1_000, to: 1_010 })).toEqual({ from: 945, to: 1_065 });
  });
});
