/** Texts of the frame around every page: header, menus, command palette, banners. */

export const texts = {
  skip: "Skip to content",
  search: "Search queues and actions",
  noMatches: "No matches.",
  searching: "Searching…",
  shortcuts: "Keyboard shortcuts",
  start: "Get started",
  reference: "API reference",
  singleKeys: "Enable single-key shortcuts",
  noSignIn: "This server has no sign-in",
  pauseLive: "Pause live updates",
  resumeLive: "Resume live updates",
  pauseLiveHint: "Pause live updates. The page stays unchanged until you resume.",
  partMissing: "Part of this page could not be loaded. The server is unavailable or was upgraded. Reload the page.",
  stale: (age: string) =>
    `The server has not responded for ${age}. You are seeing older data. The dashboard keeps trying to reconnect.`,
  operation: {
    running: "running",
    done: "done",
    failed: "failed",
    cancelled: "cancelled",
  },
} as const;

export const actionTexts = {
  start: "Get started",
  reference: "Open API reference",
  tail: "Open live tail",
  groupsBehind: "Groups more than a minute behind",
  mostPending: "Queues with the most pending messages",
  oldest: "Queues with the oldest messages",
  deadLetters: "Queues with dead letters",
  failedWorkflows: "Failed workflows",
  light: "Use light theme",
  dark: "Use dark theme",
  system: "Use system theme",
  utc: "Show times in UTC",
  localTime: "Show local time",
  compact: "Compact rows",
  comfortable: "Comfortable rows",
  shortcuts: "Show keyboard shortcuts",
  signOut: "Sign out",
} as const;

/** Seconds between two refreshes while messages move, with the label of the choice. */
export const REFRESH_INTERVALS = [
  [5, "Refresh every 5 seconds"],
  [15, "Refresh every 15 seconds"],
  [60, "Refresh every minute"],
] as const;
