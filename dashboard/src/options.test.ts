import { describe, expect, it } from "vitest";

import { changes, shown } from "./options";

describe("a draft of options", () => {
  it("changes what differs and nothing else", () => {
    const before = { leaseTime: 300, ordered: true, rateLimit: null };
    const draft = { leaseTime: 60, ordered: true, rateLimit: null };
    expect(changes(before, draft)).toEqual([{ name: "leaseTime", before: 300, after: 60 }]);
  });

  it("does not mind the order of members", () => {
    const before = { rateLimit: { max: 1, durationMillis: 1_000, per: "queue" as const } };
    const draft = { rateLimit: { per: "queue", durationMillis: 1_000, max: 1 } };
    expect(changes(before, draft)).toEqual([]);
  });

  it("shows none, on and off as words", () => {
    expect([shown(null, "schema"), shown(null, "ttl")]).toEqual(["none", "default"]);
    expect([shown(true, "ordered"), shown(false, "ordered"), shown(0, "ttl")]).toEqual(["on", "off", "0"]);
  });
});
