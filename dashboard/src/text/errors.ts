/** Texts of failed requests: what happened, why, and what to do next. */

export const errorTexts = {
  timeout: {
    title: "The server took too long",
    detail: "The server did not respond in time.",
    next: "The server may be busy, or the request too large. Choose a shorter time range or fewer rows, or try again.",
  },
  unreachable: {
    title: "The server cannot be reached",
    detail: "The request did not reach the server.",
    next: "Check that the server is running and reachable from this network.",
  },
  forbidden: {
    title: "You don't have access to this",
    next: "Ask your administrator for an API key with this permission and this queue in its scope.",
  },
  masked: {
    title: "Payloads are masked",
    next: "Users with the consume permission can reveal them. The audit log records each reveal.",
  },
  missing: {
    title: "Not found",
    next: "It may have been deleted. If it was a queue, the next push creates it again.",
  },
  failed: {
    title: "The request failed",
    next: "",
  },
  status: (status: number) => `The server returned status ${status}.`,
  noCount: "The server returned no count.",
  invalidJson: (position: number) => `Invalid JSON at character ${position}.`,
  retry: "Try again",
} as const;
