/** Texts of the overview and of the first run. */

export const texts = {
  healthy: "All queues are healthy",
  healthyDetail: "No queue is stuck or paused, and there are no dead letters.",
  firstTitle: "Push your first message",
  firstHelp: "There are no queues yet. Copy one of these examples and run it. The first push creates a queue.",
  firstMessage: "First message received",
  firstWaiting: "Waiting for the first message…",
  goToOverview: "Go to overview",
  notFound: "Page not found",
  bufferOff: "FILE_BUFFER_DIR is not set",
} as const;
