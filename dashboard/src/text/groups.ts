/** Texts of the consumer group pages and of the seek dialog. */

export const texts = {
  empty: "No consumer groups yet",
  emptyHelp: "The first pop of a group creates it.",
  noMatch: "No matching groups",
  noMatchHelp: "No group reads this queue, or no group is that far behind.",
  noPartition: "No matching partitions",
  noPartitionHelp: "No partition has this much lag, or the group has not read any yet.",
  notFound: (queue: string) => `Queue ${queue} has no such consumer group.`,
  remove: "Delete group",
  removeDescription: (queue: string) =>
    `Deletes the position of the group in ${queue} and ends its leases there. The next pop creates the group again, with the start position of that pop.`,
} as const;

export const startTexts = {
  all: "all messages",
  new: "new messages",
  from: (time: string) => `messages from ${time}`,
} as const;

export const BEHIND_CHOICES = [
  ["0", "any"],
  ["1", "1 second or more"],
  ["60", "1 minute or more"],
  ["3600", "1 hour or more"],
  ["86400", "1 day or more"],
] as const;

export const seekTexts = {
  description: (group: string, where: string) =>
    `Sets where ${group} continues in ${where}. Active leases end. Messages before the position are skipped. Messages after it are delivered again.`,
  allPartitions: (queue: string) => `all partitions of ${queue}`,
  partition: (partition: string) => `partition ${partition}`,
  end: "with new messages only",
  start: "from the oldest stored message",
  time: "from a time",
  offset: "from an offset",
  timeHint: "Enter -15m, -2h or 2026-01-31T10:00Z.",
} as const;
