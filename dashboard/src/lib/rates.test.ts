import { describe, expect, it } from "vitest";

import { perSecond } from "./rates";

describe("counts per second", () => {
  const points = [
    { t: "2030-01-01T00:00:00Z", pushed: 60 },
    { t: "2030-01-01T00:01:00Z", pushed: null },
    { t: "2030-01-01T00:02:00Z", pushed: 30 },
  ];
  const end = Date.parse("2030-01-01T00:02:30Z") / 1_000;

  it("divide the current bucket by its elapsed time and keep gaps", () => {
    expect(perSecond(points, 60, "pushed", end)).toEqual([1, null, 1]);
  });

  it("are unknown for a bucket that just started", () => {
    expect(perSecond(points, 60, "pushed", end - 25)).toEqual([1, null, null]);
  });
});
