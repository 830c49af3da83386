import { describe, expect, it } from "vitest";

import { briefly, bytes, count, distance, duration, rate } from "./format";

describe("figures", () => {
  it("shows what is not known as a dash, never as 0", () => {
    expect([count(null), rate(undefined), duration(null), bytes(null)]).toEqual(Array(4).fill("–"));
    expect([count(0), rate(0), duration(0), bytes(0)]).toEqual(["0", "0", "0 s", "0 B"]);
  });

  it.each([
    [0.0004, "1 ms"],
    [0.25, "250 ms"],
    [4.23, "4.2 s"],
    [59.7, "1m"],
    [125, "2m 5s"],
    [3_600, "1h"],
    [273_600, "3d 4h"],
  ])("%s seconds are %s", (seconds, shown) => {
    expect(duration(seconds)).toBe(shown);
  });

  it("is brief where there is little room", () => {
    const now = Date.parse("2030-01-01T10:00:00Z");
    expect(briefly("2030-01-01T00:00:20Z", true, now)).toBe("00:00:20");
    expect(briefly("2029-12-31T23:59:20Z", true, now)).toBe("12-31 23:59");
  });

  it("never waits for a negative time", () => {
    const now = Date.parse("2030-01-01T00:00:00Z");
    expect(distance("2030-01-01T00:00:20Z", now)).toBe("in 20 s");
    expect(distance("2029-12-31T23:59:20Z", now)).toBe("40 s ago");
  });

  it("keeps small rates apart from none", () => {
    expect([rate(0.02), rate(1.25), rate(1_234)]).toEqual(["0.02", "1.3", "1,234"]);
  });
});
