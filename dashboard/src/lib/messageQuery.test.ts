import { expect, test } from "vitest";

import { parseMessageQuery, parseTime, withTerm } from "./messageQuery";

const NOW = Date.parse("2026-01-01T12:00:00Z");
const searched = (text: string) => parseMessageQuery(text, NOW, true).search;

test("qualifiers set filters, and other words search the payload", () => {
  expect(searched('partition:eu/1 status:failed group:billing tx:"a b" late fee')).toEqual({
    partition: "eu/1",
    status: "failed",
    consumerGroup: "billing",
    transactionId: "a b",
    contains: "late fee",
  });
});

test("a payload path is a condition with a number or a string", () => {
  expect(searched("payload.customer.id:42").where).toBe("customer.id=42");
  expect(searched('payload.customer.id:"42"').where).toBe('customer.id="42"');
});

test("unknown qualifiers are searched as text", () => {
  expect(searched("https://example.com/a:b").contains).toBe("https://example.com/a:b");
  expect(searched('"status:failed"').contains).toBe("status:failed");
  expect(searched("constructor:x __proto__:y").contains).toBe("constructor:x __proto__:y");
});

test("times are timestamps or ages", () => {
  expect(parseTime("-15m", NOW, true)).toBe("2026-01-01T11:45:00.000Z");
  expect(parseTime("2026-01-01T10:00Z", NOW, false)).toBe("2026-01-01T10:00:00.000Z");
  expect(parseTime("2026-01-01 10:00:00+02:00", NOW, true)).toBe("2026-01-01T08:00:00.000Z");
  for (const none of ["yesterday", "1", "2026-13-01", "-99999999999999d"]) expect(parseTime(none, NOW, true)).toBeNull();
});

test("a time without a zone uses the displayed time zone", () => {
  const here = (text: string) => new Date(text).toISOString();
  for (const text of ["2026-01-01", "2026-01-01 10:00", "2026-01-01T10:00:05"]) {
    const whole = text.length > 10 ? text.replace(" ", "T") : `${text}T00:00`;
    expect(parseTime(text, NOW, true)).toBe(here(`${whole}Z`));
    expect(parseTime(text, NOW, false)).toBe(here(whole));
  }
});

test("invalid terms are reported, not ignored", () => {
  expect(parseMessageQuery("status:odd from:never", NOW, true).faults).toHaveLength(2);
  expect(parseMessageQuery("tx:a tx:b", NOW, true).faults).toHaveLength(1);
});

test("a term is set, changed and removed", () => {
  expect(withTerm("late", "status", "failed")).toBe("status:failed late");
  expect(withTerm("status:failed late", "status", "pending")).toBe("status:pending late");
  expect(withTerm("status:failed late", "status", "")).toBe("late");
  expect(withTerm("", "partition", 'a "b"')).toBe('partition:"a \\"b\\""');
});
