/** Why a queue may not get on, in the words of the engine; nothing is said of one that does. */

import type { Schemas } from "../api/client";
import { backlog, count, duration } from "./format";

export type Queue = Schemas["QueueSummary"];

export interface HealthIssue {
  kind:
    | "paused"
    | "no-consumer"
    | "held"
    | "retrying"
    | "rate-limit"
    | "concurrency-limit"
    | "dead-letters";
  level: "warn" | "bad";
  label: string;
  why: string;
  /** Where on the queue's page it is seen. */
  tab?: "partitions" | "groups" | "deliveries" | "configuration";
  /** Or on which other page. */
  page?: "dead-letters";
}

/** Until a message has waited so long, a queue without a pop is merely quiet. */
const PATIENCE_SECONDS = 30;

export function healthIssues(queue: Queue): HealthIssue[] {
  const found: HealthIssue[] = [];
  if (queue.paused) {
    found.push({
      kind: "paused",
      level: "warn",
      label: "Paused",
      why: "Pops get nothing until somebody resumes the queue; pushes go on.",
      tab: "configuration",
    });
  } else if ((backlog(queue).many ?? 0) > 0) {
    found.push(...backlogIssues(queue));
  }
  if ((queue.deadLetters ?? 0) > 0) {
    const one = queue.deadLetters === 1;
    found.push({
      kind: "dead-letters",
      level: "bad",
      label: `${count(queue.deadLetters)} dead letter${one ? "" : "s"}`,
      why: `${one ? "A message" : "Messages"} gave up after all attempts and ${one ? "waits" : "wait"} for a decision.`,
      page: "dead-letters",
    });
  }
  return found;
}

function backlogIssues(queue: Queue): HealthIssue[] {
  const found: HealthIssue[] = [];
  const isStill =
    !queue.poppedPerSecond && (backlog(queue).seconds ?? 0) > PATIENCE_SECONDS;
  const age = duration(backlog(queue).seconds);
  if ((queue.waiting ?? 0) > 0) {
    found.push({
      kind: "retrying",
      level: "warn",
      label: "Retrying",
      why: `${count(queue.waiting)} deliver${queue.waiting === 1 ? "y" : "ies"} failed and wait${queue.waiting === 1 ? "s" : ""} for the next attempt${queue.ordered ? "; the partition waits with it" : ""}.`,
      tab: "deliveries",
    });
  }
  const { rateLimit, concurrencyLimit } = queue;
  if (rateLimit) {
    found.push({
      kind: "rate-limit",
      level: "warn",
      label: "Rate limit",
      why: `Each group gets at most ${count(rateLimit.max)} message${rateLimit.max === 1 ? "" : "s"} in ${duration(rateLimit.durationMillis / 1_000)}, by ${rateLimit.per ?? "queue"}.`,
      tab: "configuration",
    });
  }
  if (concurrencyLimit && (queue.held ?? 0) >= concurrencyLimit) {
    found.push({
      kind: "concurrency-limit",
      level: "warn",
      label: "Concurrency limit",
      why: `${count(queue.held)} deliveries are held, and ${count(concurrencyLimit)} is the most for a group.`,
      tab: "deliveries",
    });
  }
  if (queue.consumerGroups === 0 || (isStill && !queue.held && !queue.waiting && !rateLimit)) {
    found.push({
      kind: "no-consumer",
      level: "bad",
      label: "No consumer",
      why:
        queue.consumerGroups === 0
          ? "Nobody has ever popped from this queue."
          : `Nobody pops: the oldest message has waited for ${age}.`,
      tab: "groups",
    });
  } else if (isStill && queue.held) {
    found.push({
      kind: "held",
      level: "warn",
      label: "Held",
      why: `${count(queue.held)} deliver${queue.held === 1 ? "y is" : "ies are"} held and nothing moves; the oldest message has waited for ${age}.`,
      tab: "deliveries",
    });
  }
  return found;
}

/** Where a trouble is looked into. */
export function issueLink(queue: string, trouble: HealthIssue) {
  if (trouble.page) return { name: trouble.page, query: { queue } };
  return { name: "queue", params: { queue }, query: trouble.tab ? { tab: trouble.tab } : {} };
}
