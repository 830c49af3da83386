/** Texts of the list of queues, of a queue's page and of its dialogs. */

import { plural } from "../lib/format";

export const texts = {
  noMatch: "No matching queues",
  removeFilter: "Remove filter",
  empty: "No queues yet",
  zoom: "Drag to zoom in. Use the browser's Back button to zoom out.",
  issues: "Issues",
  sections: "Queue sections",
  pending30Minutes: (queue: string) => `Pending messages in ${queue}, last 30 minutes`,
} as const;

export const actionTexts = {
  pause: {
    title: "Pause queue",
    description:
      "Consumers receive no new messages until you resume the queue. Pushes are still accepted, and leased deliveries can finish.",
  },
  resume: {
    title: "Resume queue",
    description: "Consumers receive messages again immediately.",
  },
  remove: {
    title: "Delete queue",
    description:
      "Deletes the queue with its messages, groups and configuration. Dead letters stay. A later push creates a new queue. This cannot be undone.",
  },
} as const;

export const pushTexts = {
  title: "Push a message",
  copyTitle: "Push a copy",
  description: (queue: string) => `Pushes to ${queue}. Consumers receive it like any other message.`,
  copyDescription: "Pushes a new message with its own transactionId. The original does not change.",
} as const;

export const purgeTexts = {
  title: "Purge messages",
  all: (pending: string) =>
    `Deletes all messages, including ${pending} pending. Leases on them end. This cannot be undone.`,
  completed: "Deletes messages that all groups have completed. Pending messages stay. This cannot be undone.",
  which: "Which messages",
  byAllGroups: "Completed by all groups",
  olderThan: "Only messages older than (hours)",
  count: "Messages to delete",
  force: "Also messages that a hold keeps, such as those that are not archived yet",
} as const;

export const configurationTexts = {
  title: "Save configuration",
  description: (queue: string) => `The changes apply to all users of ${queue} immediately.`,
  changed: (many: number) => `${plural(many, "option")} changed`,
  discard: "Discard changes",
  review: "Review and save",
  managed: (manager: string) => `Managed by ${manager}. The next queen apply reverts changes that you make here.`,
} as const;

export const partitionTexts = {
  noMatchYet: "No match in the partitions searched so far. They are searched by name.",
  seeDeliveries: "lists all leased partitions at once.",
  noMatch: "No matching partitions",
  noMatchHelp: "All partitions were searched. Remove the filter, or enter a shorter name.",
  empty: "No partitions yet",
  emptyHelp: "The first push to a partition creates it.",
} as const;

export const deliveryTexts = {
  states: { held: "leased", expired: "expired", waiting: "retrying", parked: "parked" },
  help: {
    held: "A consumer is processing it until the lease ends.",
    expired: "The lease expired. The next pop redelivers it.",
    waiting: "It failed and waits for the next attempt.",
    parked: "It waits behind another delivery.",
  },
  empty: "No deliveries in flight",
  emptyHelp: "No message of this queue is leased or waiting for a retry.",
  release: "Release delivery",
  releaseDescription: (group: string, many: number, partition: string) =>
    `${group} has leased ${plural(many, "message")} of partition ${partition}. Releasing makes them available again at once, and the attempt does not count. The current consumer loses the lease, so its ack is rejected, and another consumer receives the messages.`,
} as const;
