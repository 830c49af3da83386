import { describe, expect, it } from "vitest";

import { type Queue, healthIssues } from "./queueHealth";

function queue(said: Partial<Queue>): Queue {
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
    ...said,
  };
}

const stuck = { pending: 3, oldestAgeSeconds: 600 };

describe("troubles", () => {
  it.each<[string, Partial<Queue>, string[]]>([
    ["an empty queue has none", {}, []],
    ["figures that are not known are no trouble", { pending: null, deadLetters: null }, []],
    ["a backlog too large to count is one, as last measured", { pending: null, sampledPending: 3, sampledOldestAgeSeconds: 600 }, ["no-consumer"]],
    ["a backlog that moves is none", { ...stuck, poppedPerSecond: 2 }, []],
    ["a message of now is none", { pending: 1, oldestAgeSeconds: 2 }, []],
    ["a paused queue is paused, whatever waits", { ...stuck, paused: true }, ["paused"]],
    ["nobody ever popped", { pending: 1, consumerGroups: 0 }, ["no-consumer"]],
    ["nobody pops any more", stuck, ["no-consumer"]],
    ["somebody holds and nothing moves", { ...stuck, held: 1 }, ["held"]],
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
  ])("%s", (_, said, kinds) => {
    expect(healthIssues(queue(said)).map((each) => each.kind)).toEqual(kinds);
  });
});
