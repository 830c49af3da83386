/** Help and errors of the message search. */

export const qualifierTexts = {
  partition: "partition name",
  group: "status for this consumer group",
  tx: "transactionId",
  from: "pushed since, for example -15m, -2h or 2026-01-31T10:00Z",
  to: "pushed before, in the same format",
  payload: "value at a path, for example payload.customer.id:42",
} as const;

export const texts = {
  once: (word: string) => `Use ${word} only once.`,
  status: (all: string) => `status must be one of ${all}.`,
  time: (term: string) => `${term} is not a valid time. Enter -15m or 2026-01-31T10:00Z.`,
  placeholder: "partition:eu status:failed payload.customer.id:42 text",
  help: "Other words are searched in the payload. Use quotes for phrases.",
} as const;
