/** Texts of the dead letters page and its dialogs. */

import { plural } from "../lib/format";

export const texts = {
  allMatches: "all matches",
  selected: (many: string) => `${many} selected`,
  read: (many: string) => `${many} read`,
  exported: (many: string, masked: string | null) => `${many} exported${masked ? `, ${masked} of them masked` : ""}.`,
  exportedNewest: " Only the newest are included. Use the command line to export all.",
  revealLogged: "Revealing them is recorded in the audit log.",
  selectAll: "Select all loaded",
  select: (offset: number | null, partition: string) => `Select offset ${offset} of ${partition}`,
  noError: "(no error message)",
  grouped: (many: string) => `Only the newest ${many} dead letters are grouped.`,
  noMatch: "No matching dead letters",
  noMatchHelp: "They may have been redriven or purged.",
  empty: "No dead letters",
  emptyHelp: "Messages that exhaust their retries appear here.",
  searched: (many: string) => `No dead letters in the first ${many} queues.`,
} as const;

export const purgeTexts = {
  title: "Purge dead letters",
  selected: "The selected dead letters",
  withError: "All dead letters with this error",
  matching: "All matching dead letters",
  description: (which: string) => `${which} are deleted permanently. You can no longer view or redrive them.`,
  count: "Dead letters to delete",
} as const;

export const redriveTexts = {
  title: "Redrive dead letters",
  moveTitle: "Move to another queue",
  count: "Matching dead letters",
  many: (many: number) => plural(many, "dead letter"),
  some: "The matching dead letters",
  toGroups: (which: string, isOne: boolean) =>
    `${which} ${isOne ? "returns to the consumer group" : "return to the consumer groups"} that failed to process ${isOne ? "it" : "them"}. Other groups do not receive ${isOne ? "it" : "them"}. Attempts count from 1.`,
  toQueue: (which: string, isOne: boolean) =>
    `${which} ${isOne ? "becomes a new message" : "become new messages"} in another queue and ${isOne ? "is" : "are"} removed from the dead letters.`,
  elsewhere: "Redrive to another queue",
  rate: "Maximum per second",
} as const;
