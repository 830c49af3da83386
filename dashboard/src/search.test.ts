import { expect, test } from "vitest";

import { instantOf, parseSearch, withTerm } from "./search";

const NOW = Date.parse("2026-01-01T12:00:00Z");
const searched = (text: string) => parseSearch(text, NOW).search;

test("words before a colon say what is meant, the rest is looked for in the payload", () => {
  expect(searched('partition:eu/1 status:failed group:billing tx:"a b" late fee')).toEqual({
    partition: "eu/1",
    status: "failed",
    consumerGroup: "billing",
    transactionId: "a b",
    contains: "late fee",
  });
});

test("a path of the payload is a condition, as a number or as a text", () => {
  expect(searched("payload.customer.id:42").where).toBe("customer.id=42");
  expect(searched('payload.customer.id:"42"').where).toBe('customer.id="42"');
});

test("what is no qualifier is looked for as it stands", () => {
  expect(searched("https://example.com/a:b").contains).toBe("https://example.com/a:b");
  expect(searched('"status:failed"').contains).toBe("status:failed");
  expect(searched("constructor:x __proto__:y").contains).toBe("constructor:x __proto__:y");
});

test("times are instants or so long before now", () => {
  expect(instantOf("-15m", NOW)).toBe("2026-01-01T11:45:00.000Z");
  expect(instantOf("2026-01-01T10:00Z", NOW)).toBe("2026-01-01T10:00:00.000Z");
  expect(instantOf("yesterday", NOW)).toBeNull();
});

test("what is not understood is told, not passed over", () => {
  expect(parseSearch("status:odd from:never", NOW).faults).toHaveLength(2);
  expect(parseSearch("tx:a tx:b", NOW).faults).toHaveLength(1);
});

test("a term is set, changed and taken away", () => {
  expect(withTerm("late", "status", "failed")).toBe("status:failed late");
  expect(withTerm("status:failed late", "status", "pending")).toBe("status:pending late");
  expect(withTerm("status:failed late", "status", "")).toBe("late");
  expect(withTerm("", "partition", 'a "b"')).toBe('partition:"a \\"b\\""');
});
