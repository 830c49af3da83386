/** Texts of the message search, the live tail, a message's page and the comparison. */

import { plural } from "../lib/format";

export const texts = {
  newestFirst: "Newest first. Browsing does not consume messages.",
  browsing: "Browsing does not consume messages.",
  chooseQueue: "Choose a queue",
  noMatch: "No matching messages",
  noMatchHelp: "Remove a search term, or search older messages.",
  emptyHelp: "This queue stores no messages.",
  searching: "Searching…",
  searchOlder: "Search older messages",
  searched: (found: string, isComplete: boolean, scanned: string) =>
    `${found} found, searched ${isComplete ? "all" : "the newest"} ${scanned}`,
  revealAndSearch: "Reveal and search",
  pick: (offset: string | number, partition: string) => `Select offset ${offset} of ${partition} to compare`,
} as const;

export const tailTexts = {
  follow: "Enter the name of the queue to follow.",
  held: "Paused. Messages that arrive meanwhile are shown when you resume.",
  livePaused: "Live updates are paused.",
  following: "Following.",
  shown: (many: string, kept: string) => `${many} shown, newest first. The page keeps the latest ${kept}.`,
  gap: "Some messages were skipped here because they arrived faster than the page could read them.",
  waiting: "Waiting for messages…",
  list: "Incoming messages",
} as const;

export const messageTexts = {
  revealFirst: "Reveal the payload before you copy it.",
  erased: "The payload and headers were erased. The offset remains.",
  undecryptable: (why: string) => `This server cannot decrypt the payload: ${why}.`,
  headersMasked: "Masked with the payload.",
  noHeaders: "No headers.",
  cancelled: "Cancelled. It will not be delivered.",
  noGroup: "No consumer group has received this message.",
} as const;

export const retryTexts = {
  title: "Retry message",
  description: (group: string, isDead: boolean) =>
    `${group} receives it again at once.` +
    (isDead ? " It is no longer a dead letter, and its attempts count from 1." : ""),
} as const;

export const deadLetterTexts = {
  title: "Move to dead letters",
  description: (group: string) =>
    `${group} will not receive this message again and continues with the next one. A consumer that has leased it loses only this message. You can redrive it later.`,
  placeholder: "stored with the dead letter",
} as const;

export const redactTexts = {
  title: "Redact message",
  description: "Erases the payload and headers, including all copies. The message is not delivered again. This cannot be undone.",
  cancelTitle: "Cancel message",
  cancelDescription: "It will never be delivered, and its transactionId can be used again.",
  keep: "Keep message",
} as const;

export const timelineTexts = {
  leaseEnds: (group: string, attempt: number) => `Lease of ${group} ends${attempt > 0 ? `, attempt ${attempt}` : ""}`,
  nextAttempt: (group: string, attempts: number) => `Next attempt for ${group}, after ${plural(attempts, "attempt")}`,
  deadLettered: (group: string, attempts: number) => `Dead-lettered for ${group} after ${plural(attempts, "attempt")}`,
  upcoming: ", upcoming",
} as const;

export const compareTexts = {
  title: "Compare messages",
  wholePayload: "entire payload",
  missing: "missing",
  erased: (title: string) => `${title} was erased`,
  undecryptable: (title: string, why: string) => `${title} cannot be decrypted (${why})`,
  noPayload: (why: string) => `The payloads cannot be compared: ${why}.`,
  identical: "The payloads are identical",
} as const;
