/** Texts of the overview. */

export const texts = {
  healthy: "All queues are healthy",
  healthyDetail: "No queue is stuck or paused, and there are no dead letters.",
  goToOverview: "Go to overview",
  notFound: "Page not found",
  bufferOff: "FILE_BUFFER_DIR is not set",
} as const;
