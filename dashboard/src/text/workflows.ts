/** Texts of the workflow pages and their dialogs. */

export const texts = {
  name: "Workflow name",
  filter: (value: string) => `Filter by ${value}`,
  filterTag: (tag: string) => `Filter by tag ${tag}`,
  noMatch: "No matching runs",
  noMatchHelp: "Names, correlation IDs and tags must match exactly. Finished runs are kept for a limited time.",
  empty: "No workflows yet",
  kept: "Finished runs are kept for a limited time.",
  failedSteps: "Failed steps",
  noParts: "No parts in this state.",
  progress: (settled: string, all: string) => `${settled} of ${all} finished`,
} as const;

export const kindTexts = {
  signal: (signal: string) => `waits for signal ${signal}`,
  undo: (step: string) => `undoes ${step}`,
  map: "one job per item",
  mapOver: (over: string) => `one job per item of ${over}`,
  job: (queue: string | null | undefined) => `job in ${queue}`,
  namedJob: (job: string, queue: string | null | undefined) => `${job} in ${queue}`,
} as const;

export const retryTexts = {
  title: "Retry run",
  titleFrom: (step: string) => `Retry from ${step}`,
  from: (step: string) => `Restarts ${step}, the steps that follow it, and all other failed steps.`,
  undo: "Retries the compensation steps that failed.",
  steps: "Failed steps run again, and so do the steps that follow them. Completed steps are not repeated.",
} as const;

export const cancelTexts = {
  title: "Cancel run",
  description: "No further steps start. Queued steps are withdrawn. Running steps that need compensation finish first.",
  keep: "Keep running",
  reason: "shown on the page of the run",
  compensate: "Compensate completed steps",
} as const;

export const removeTexts = {
  title: "Delete run",
  description: "Deletes the run with its steps and their results. Messages and jobs stay.",
} as const;

export const signalTexts = {
  title: (name: string) => `Send signal ${name}`,
  description:
    "Every step that waits for this signal receives it, including steps that have not started yet. This cannot be undone.",
  notTaken: "No step accepted the signal. Each step accepts only the first one.",
  success: "success: the step completes",
  failure: "failure: the step fails",
} as const;
