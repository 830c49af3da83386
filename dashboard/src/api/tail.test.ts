import { expect, test } from "vitest";

import { parseJson } from "../lib/json";
import type { Info } from "./messages";
import { Tail } from "./tail";

function row(partitionId: string, offset: number, second: number): Info {
  const createdAt = new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
  return { partitionId, offset, createdAt, data: parseJson("1") } as Info;
}

test("a known message is not returned again, whatever its timestamp", () => {
  const tail = new Tail();
  expect(tail.since).toBeUndefined();
  expect(tail.take([row("a", 1, 20), row("a", 0, 10)])).toHaveLength(2);
  expect(tail.since).toBe("2026-01-01T00:00:15.000Z");
  expect(tail.take([row("b", 0, 16), row("a", 2, 20), row("a", 1, 20)]).map((each) => each.offset)).toEqual([0, 2]);
  expect(tail.take([row("b", 0, 16), row("a", 2, 20)])).toEqual([]);
});
