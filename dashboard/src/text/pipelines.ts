/** Texts of the pipelines page. */

export const texts = {
  about: "Spark jobs and the status that they report",
  silent: (state: string) => `${state}, no recent report`,
  empty: "No pipelines yet",
  batch: (id: string, took: string) => `${id}, took ${took}`,
  heldBackBy: (holder: string) => `Newer messages wait for ${holder}. End that transaction.`,
  rows: (perSecond: string, all: string) => `${perSecond}/s, ${all} in all runs`,
  history: "Drag to zoom. Servers keep this history as long as the analytics of queues.",
  failed: (batch: string | null) => (batch === null ? "The run failed" : `The run failed after batch ${batch}`),
  showError: (batch: string | null) => (batch === null ? "Show the error" : `Show the error after batch ${batch}`),
  trace: "The log file of the run has the whole trace. The command printed its path.",
} as const;

export const holdTexts = {
  about: "Retention keeps the messages of a hold until a pipeline moves the hold, or until you release it.",
  many: "too many",
} as const;
