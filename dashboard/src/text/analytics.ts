/** Texts of the analytics page. */

export const texts = {
  compared: "Compared with the previous period",
  previous: (value: string) => `previous: ${value}`,
  change: (percent: number, before: string) => `${percent > 0 ? "+" : ""}${percent}% from ${before}`,
  table: "Queues in this time range",
  noMatch: "No matching queues",
} as const;
