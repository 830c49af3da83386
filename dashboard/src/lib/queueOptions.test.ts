import { describe, expect, it } from "vitest";

import { parseJson } from "./json";
import { changes, shown, written } from "./queueOptions";

describe("a draft of queue options", () => {
  it("changes only the options that differ", () => {
    const before = { leaseTime: 300, ordered: true, rateLimit: null };
    const draft = { leaseTime: 60, ordered: true, rateLimit: null };
    expect(changes(before, draft)).toEqual([{ name: "leaseTime", before: 300, after: 60 }]);
  });

  it("ignores the order of members", () => {
    const before = { rateLimit: { max: 1, durationMillis: 1_000, per: "queue" as const } };
    const draft = { rateLimit: { per: "queue", durationMillis: 1_000, max: 1 } };
    expect(changes(before, draft)).toEqual([]);
  });

  it("keeps every digit of a schema", () => {
    const before = { schema: parseJson('{"minimum": 1, "maximum": 9007199254740993}') };
    const same = parseJson('{"maximum":9007199254740993,"minimum":1}');
    expect(changes(before, { schema: same })).toEqual([]);
    // JavaScript rounds both to the same number.
    const after = parseJson('{"minimum": 1, "maximum": 9007199254740992}');
    expect(changes(before, { schema: after })).toHaveLength(1);
    expect(shown(before.schema, "schema")).toBe('{ "minimum": 1, "maximum": 9007199254740993 }');
    expect([written(before.schema), written({ max: 1 }), written(null)]).toEqual([
      '{"minimum": 1, "maximum": 9007199254740993}',
      '{"max":1}',
      "null",
    ]);
  });

  it("distinguishes a schema that rejects everything from no schema", () => {
    expect(changes({ schema: null }, { schema: parseJson("false") })).toHaveLength(1);
  });

  it("shows none, on and off as words", () => {
    expect([shown(null, "schema"), shown(null, "ttl")]).toEqual(["none", "default"]);
    expect([shown(true, "ordered"), shown(false, "ordered"), shown(0, "ttl")]).toEqual(["on", "off", "0"]);
  });
});
