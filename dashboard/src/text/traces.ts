/** Texts of the trace pages. */

import { plural } from "../lib/format";

export const texts = {
  about: "Events recorded by handlers, grouped by name",
  many: "more than 10,000",
  noMatch: "No matching traces",
  noMatchHelp: "No trace name starts with this text.",
  empty: "No traces yet",
  noEvents: "No events with this name",
  summary: (events: number, messages: number, took: string, start: string) =>
    `${plural(events, "event")} of ${plural(messages, "message")} in ${took}, starting ${start}`,
} as const;
