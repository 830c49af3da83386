/** Texts that tables, charts, dialogs and notes share on all pages. */

export const commonTexts = {
  loading: "Loading…",
  loadMore: "Load more",
  noMatchYet: "No match yet",
  noMatchSoFar: "No match in the rows searched so far.",
  noData: "No data in this time range.",
  copied: "Copied",
  close: "Close",
  cancel: "Cancel",
  counting: "Counting…",
  dryRun: (what: string, many: string) => `${what}: ${many}.`,
  atLeast: (many: string) => `at least ${many}`,
  masked: "Encrypted and masked.",
  mayReveal: "Revealing it is recorded in the audit log.",
  mayNotReveal: "Revealing it requires the consume permission.",
  reveal: "Reveal",
  breadcrumb: "Breadcrumb",
  namePrefix: "Name starts with",
  searchByName: "Search by name",
} as const;

export const rangeTexts = {
  label: "Time range",
  custom: "Custom range",
  clearZoom: "Clear zoom",
  hint: "Enter -2d, -3h or 2026-01-31T10:00Z. The end must be after the start.",
} as const;

export const jsonTexts = {
  search: "Search keys and values",
  searchIn: (label: string) => `Search ${label}`,
  matches: (many: number) => `${many} ${many === 1 ? "match" : "matches"}`,
  view: "View",
  copy: (label: string) => `Copy ${label}`,
  tree: (label: string) => `Tree of ${label}`,
  expand: (path: string) => `Expand ${path}`,
  collapse: (path: string) => `Collapse ${path}`,
  copyPath: (path: string) => `Copy path ${path}`,
  copyValue: (path: string) => `Copy value of ${path}`,
  root: "payload",
  more: (shown: string, all: string) => `Show more (${shown} of ${all} shown)`,
} as const;
