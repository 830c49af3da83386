/** Texts of the first run and of the page to get started. */

export const texts = {
  title: "Get started",
  firstHelp:
    "You have no queues yet. Copy an example and run it in a terminal. A check mark appears when a step is done.",
  nextHelp: "Continue with the next step. A check mark appears when a step is done.",
  help: "Copy an example and run it in a terminal. The first push creates the queue.",
  waiting: "Waiting for the first message…",
  received: "First message received",
  done: "done",
  push: {
    title: "Push a message",
    detail: "The first push creates the queue. When the call returns, the message is stored on disk.",
  },
  consume: {
    title: "Consume it",
    detail:
      "The worker waits for messages without polling. A message whose handler raises an error is redelivered. Stop the worker with Ctrl-C.",
  },
  jobs: {
    title: "Run a background job",
    detail: "A job is a function that runs later, on any worker, with retries. This example adds a job and runs it.",
  },
  next: "Next steps",
  reference: "Try every route in the API reference",
  queues: "See your queues",
  jobsPage: "See your jobs",
} as const;
