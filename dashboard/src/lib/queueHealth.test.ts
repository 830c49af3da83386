import { describe, expect, it } from "vitest";

import { healthIssues, type Queue } from "./queueHealth";

function queue(overrides: Partial<Queue>): Queue {
  return {
    name: "orders",
    namespace: "",
    task: "",
    version: 1,
    createdAt: "2030-01-01T00:00:00Z",
    paused: false,
    ordered: true,
    priority: 0,
    partitions: 1,
    consumerGroups: 1,
    pending: 0,
    held: 0,
    waiting: 0,
    scheduled: 0,
    deadLetters: 0,
    oldestAgeSeconds: null,
    sampledPending: null,
    sampledOldestAgeSeconds: null,
    pushedPerSecond: 0,
    poppedPerSecond: 0,
    ...overrides,
  };
}

const stuck = { pending: 3, oldestAgeSeconds: 600 };

describe("health issues", () => {
  it.each<[string, Partial<Queue>, string[]]>([
    ["an empty queue is healthy", {}, []],
    ["unknown counts are not an issue", { pending: null, deadLetters: null }, []],
    ["a backlog too large to count uses the last sample", { pending: null, sampledPending: 3, sampledOldestAgeSeconds: 600 }, ["no-consumer"]],
    ["a backlog that is being consumed is healthy", { ...stuck, poppedPerSecond: 2 }, []],
    ["a new message is healthy", { pending: 1, oldestAgeSeconds: 2 }, []],
    ["a paused queue is only paused", { ...stuck, paused: true }, ["paused"]],
    ["no consumer ever popped", { pending: 1, consumerGroups: 0 }, ["no-consumer"]],
    ["consumers stopped popping", stuck, ["no-consumer"]],
    ["deliveries are leased without progress", { ...stuck, held: 1 }, ["held"]],
    ["a poison message", { ...stuck, waiting: 1 }, ["retrying"]],
    ["dead letters", { deadLetters: 2 }, ["dead-letters"]],
    [
      "a rate limit",
      { ...stuck, rateLimit: { max: 1, durationMillis: 60_000, per: "queue" } },
      ["rate-limit"],
    ],
    [
      "a concurrency limit that is reached",
      { ...stuck, held: 2, poppedPerSecond: 1, concurrencyLimit: 2 },
      ["concurrency-limit"],
    ],
  ])("%s", (_, overrides, kinds) => {
    expect(healthIssues(queue(overrides)).map((each) => each.kind)).toEqual(kinds);
  });
});
