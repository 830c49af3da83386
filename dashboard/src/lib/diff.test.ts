import { expect, test } from "vitest";

import { differences } from "./diff";
import { parseJson } from "./json";

const of = (before: string, after: string) => differences(parseJson(before), parseJson(after));

test("equal values are not listed, whatever their formatting", () => {
  expect(of('{"a": [1, {"b": "\\u00fc"}]}', '{ "a" : [ 1, {"b":"ü"} ] }')).toEqual([]);
});

test("changes, removals and additions are listed by path", () => {
  expect(of('{"a": 1, "b": {"c": [1, 2]}, "d": 4}', '{"a": 2, "b": {"c": [1]}, "e": 5}')).toEqual([
    { path: "a", before: "1", after: "2" },
    { path: "b.c[1]", before: "2", after: null },
    { path: "d", before: "4", after: null },
    { path: "e", before: null, after: "5" },
  ]);
});

test("large numbers differ by their last digit", () => {
  expect(of("12345678901234567890", "12345678901234567891")).toHaveLength(1);
});

test("different types are a difference", () => {
  expect(of('{"a": 1}', '{"a": "1"}')).toEqual([{ path: "a", before: "1", after: '"1"' }]);
  expect(of("[]", "{}")).toHaveLength(1);
});
