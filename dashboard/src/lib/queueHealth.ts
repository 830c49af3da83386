/** Find the reasons why a queue needs attention. A healthy queue has none. */

import type { Schemas } from "../api/client";
import { texts } from "../text/queueHealth";
import { backlog, duration } from "./format";

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
  /** The tab of the queue's page that shows the details. */
  tab?: "partitions" | "groups" | "deliveries" | "configuration";
  /** Or another page that shows them. */
  page?: "dead-letters";
}

/** A queue without pops counts as idle until its oldest message has waited this long. */
const PATIENCE_SECONDS = 30;

export function healthIssues(queue: Queue): HealthIssue[] {
  const found: HealthIssue[] = [];
  if (queue.paused) {
    found.push({
      kind: "paused",
      level: "warn",
      ...texts.paused,
      tab: "configuration",
    });
  } else if ((backlog(queue).many ?? 0) > 0) {
    found.push(...backlogIssues(queue));
  }
  if ((queue.deadLetters ?? 0) > 0) {
    found.push({
      kind: "dead-letters",
      level: "bad",
      label: texts.deadLetters.label(queue.deadLetters),
      why: texts.deadLetters.why(queue.deadLetters),
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
      label: texts.retrying.label,
      why: texts.retrying.why(queue.waiting, queue.ordered),
      tab: "deliveries",
    });
  }
  const { rateLimit, concurrencyLimit } = queue;
  if (rateLimit) {
    found.push({
      kind: "rate-limit",
      level: "warn",
      label: texts.rateLimit.label,
      why: texts.rateLimit.why(rateLimit.max, rateLimit.durationMillis, rateLimit.per ?? "queue"),
      tab: "configuration",
    });
  }
  if (concurrencyLimit && (queue.held ?? 0) >= concurrencyLimit) {
    found.push({
      kind: "concurrency-limit",
      level: "warn",
      label: texts.concurrencyLimit.label,
      why: texts.concurrencyLimit.why(queue.held, concurrencyLimit),
      tab: "deliveries",
    });
  }
  if (queue.consumerGroups === 0 || (isStill && !queue.held && !queue.waiting && !rateLimit)) {
    found.push({
      kind: "no-consumer",
      level: "bad",
      label: texts.noConsumer.label,
      why: queue.consumerGroups === 0 ? texts.noConsumer.never : texts.noConsumer.idle(age),
      tab: "groups",
    });
  } else if (isStill && queue.held) {
    found.push({
      kind: "held",
      level: "warn",
      label: texts.noProgress.label,
      why: texts.noProgress.why(queue.held, age),
      tab: "deliveries",
    });
  }
  return found;
}

/** Route to the details of an issue. */
export function issueLink(queue: string, issue: HealthIssue) {
  if (issue.page) return { name: issue.page, query: { queue } };
  return { name: "queue", params: { queue }, query: issue.tab ? { tab: issue.tab } : {} };
}
