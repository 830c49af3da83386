/** Texts of the jobs, schedules and workers pages. */

export const texts = {
  sections: "Job sections",
  processor: "Processor name",
  searched: (many: string) => `No match in the newest ${many} jobs.`,
  noMatch: "No matching jobs",
  noMatchHelp: "To list scheduled jobs, choose the status “scheduled”.",
  empty: "No jobs yet",
  emptyHelp: "A job is a message that a named processor runs. Adding the first job creates its queue.",
  alsoMasked: "The result, progress and metadata are masked too.",
  defaultAttempts: "the processor's default",
} as const;

export const retryTexts = {
  title: "Retry job",
  description: "The job runs again as soon as a worker is free. If it failed, its attempts count from 1.",
} as const;

export const cancelTexts = {
  title: "Cancel job",
  description: "The job will not run. If a worker is running it now, its result is discarded.",
  keep: "Keep job",
} as const;

export const scheduleTexts = {
  empty: "No recurring jobs",
  missed: (rule: string) => `Missed runs: ${rule}`,
  pause: {
    title: "Pause schedule",
    description: "The schedule does not run until you resume it. Runs during the pause do not count as missed.",
  },
  resume: {
    title: "Resume schedule",
    description: "The schedule continues with its next run.",
  },
  run: {
    title: "Run schedule now",
    description: "Pushes one message now, in addition to the regular runs.",
  },
  delete: {
    title: "Delete schedule",
    description: "The schedule stops. Messages that it already pushed stay.",
  },
} as const;

export const workerTexts = {
  help: "Workers that contacted this host in the last 15 s. A name is the host, the process ID and a unique suffix.",
  empty: "No workers connected",
} as const;
