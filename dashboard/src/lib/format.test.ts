import { describe, expect, it } from "vitest";

import { bytes, count, dateTime, duration, exact, rate, relativeTime, shortTime, tick } from "./format";

describe("formatting", () => {
  it("shows unknown values as a dash, never as 0", () => {
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

  it("formats numbers and times like Intl", () => {
    const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
    const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
    const figures = [1, 7, 12, 123, 999, 1_000, 9_999, 99_999.4].concat(
      [99_999.5, 100_000, 123_456, 149_950, 949_999, 999_949, 999_950, 999_999].flatMap((each) =>
        Array.from({ length: 10 }, (_, zeros) => Math.round(each * 10 ** zeros)),
      ),
    );
    for (const each of figures) {
      expect(exact(each)).toBe(whole.format(each));
      if (each >= 100_000) expect(count(each)).toBe(short.format(each));
    }
    expect([exact(-1_234.5), count(99_999)]).toEqual(["-1,235", "99,999"]);
    for (const isUtc of [true, false]) {
      const timeZone = isUtc ? "UTC" : undefined;
      const long = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium", timeZone });
      const days = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone });
      const hours = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone });
      for (let month = 0; month < 12; month += 1) {
        const at = Date.UTC(2030, month, 3 * month + 1, 2 * month, 5 * month, 59);
        expect(dateTime(at, isUtc)).toBe(long.format(at) + (isUtc ? "Z" : ""));
        expect(tick(at / 1_000, 86_400, isUtc)).toBe(days.format(at).replace("Sept", "Sep"));
        expect(tick(at / 1_000, 3_600, isUtc)).toBe(hours.format(at));
      }
    }
  });

  it("has a short form for narrow columns", () => {
    const now = Date.parse("2030-01-01T10:00:00Z");
    expect(shortTime("2030-01-01T00:00:20Z", true, now)).toBe("00:00:20");
    expect(shortTime("2029-12-31T23:59:20Z", true, now)).toBe("12-31 23:59");
  });

  it("never shows a negative duration", () => {
    const now = Date.parse("2030-01-01T00:00:00Z");
    expect(relativeTime("2030-01-01T00:00:20Z", now)).toBe("in 20 s");
    expect(relativeTime("2029-12-31T23:59:20Z", now)).toBe("40 s ago");
  });

  it("distinguishes small rates from zero", () => {
    expect([rate(0.02), rate(1.25), rate(1_234)]).toEqual(["0.02", "1.3", "1,234"]);
  });
});
