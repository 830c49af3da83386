import { expect, test } from "vitest";

import { childrenOf, indented, member, parseJson, pathOf, plainOf } from "./json";

test("numbers of any size keep their text", () => {
  for (const text of ["12345678901234567890", "1.0", "1e400", "-0", "0.1000"]) {
    expect(parseJson(text)).toEqual({ kind: "number", text, raw: text });
  }
});

test("keys keep their order, and duplicate keys are both kept", () => {
  const json = parseJson('{"b": 1, "10": 2, "1": 3, "b": 4}');
  expect(childrenOf(json).map(([key]) => key)).toEqual(["b", "10", "1", "b"]);
  expect(json.raw).toBe('{"b": 1, "10": 2, "1": 3, "b": 4}');
});

test("the text of a string has no escapes", () => {
  expect(parseJson('"\\u00fc\\n\\"<b>"')).toMatchObject({ kind: "string", text: 'ü\n"<b>' });
});

test("plain values equal those of JSON.parse", () => {
  const text = '[{"a": [1, 2, {"b": null}], "c": true}, [], {}, "x", -1.5e3, false]';
  expect(plainOf(parseJson(text))).toEqual(JSON.parse(text));
  expect(JSON.parse(indented(parseJson(text)))).toEqual(JSON.parse(text));
});

test.each(["", "{", "[1,]", '{"a"}', "01", "1 2", "nul", '"\n"', "{a:1}", "+1"])("%j is not valid JSON", (text) => {
  expect(() => parseJson(text)).toThrow(SyntaxError);
});

test("a path is formatted like code", () => {
  expect(pathOf([])).toBe("");
  expect(pathOf(["customer", "lines", 2, "a b", "1"])).toBe('customer.lines[2]["a b"]["1"]');
  expect(pathOf(["__proto__", "größe"])).toBe("__proto__.größe");
});

test("a member is found only by its own name", () => {
  const json = parseJson('{"__proto__": 1}');
  expect(member(json, "__proto__")?.raw).toBe("1");
  expect(member(json, "constructor")).toBeUndefined();
});
