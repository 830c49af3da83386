/** Why a queue needs attention: the badge and the sentence next to it. */

import { count, duration, plural } from "../lib/format";

export const texts = {
  paused: {
    label: "Paused",
    why: "Consumers receive no messages until you resume the queue. Pushes are still accepted.",
  },
  deadLetters: {
    label: (many: number | null) => plural(many, "dead letter"),
    why: (many: number | null) =>
      many === 1
        ? "A message could not be processed. Redrive or purge it."
        : "Messages could not be processed. Redrive or purge them.",
  },
  retrying: {
    label: "Retrying",
    why: (many: number | null, isOrdered: boolean) =>
      `${plural(many, "failed delivery waits", "failed deliveries wait")} for the next attempt.` +
      (isOrdered ? " Later messages of the same partition wait too." : ""),
  },
  rateLimit: {
    label: "Rate limit",
    why: (max: number, millis: number, per: string) =>
      `Each consumer group receives at most ${plural(max, "message")} per ${duration(millis / 1_000)}, counted per ${per}.`,
  },
  concurrencyLimit: {
    label: "Concurrency limit",
    why: (leased: number | null, limit: number) =>
      `${plural(leased, "delivery is", "deliveries are")} leased, and the limit per consumer group is ${count(limit)}.`,
  },
  noConsumer: {
    label: "No consumer",
    never: "No consumer has ever read from this queue.",
    idle: (age: string) => `No consumer is reading from this queue. The oldest message has waited for ${age}.`,
  },
  noProgress: {
    label: "No progress",
    why: (leased: number | null, age: string) =>
      `${plural(leased, "delivery is", "deliveries are")} leased, but no message is being consumed. The oldest message has waited for ${age}.`,
  },
} as const;
