/** Figures as people read them. What is not known is a dash, never 0. */

export const UNKNOWN = "–";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function count(value: number | null | undefined): string {
  if (value == null) return UNKNOWN;
  return value < 100_000 ? whole.format(value) : short.format(value);
}

/** What waits in a queue, or in several. */
export interface Backlog {
  pending: number | null;
  oldestAgeSeconds: number | null;
  sampledPending: number | null;
  sampledOldestAgeSeconds: number | null;
}

/** How much waits and for how long: as it is, or as it was last measured where it is too much to count. */
export function backlog(of: Backlog | null | undefined): { many: number | null; seconds: number | null; text: string } {
  if (!of || of.pending !== null)
    return { many: of?.pending ?? null, seconds: of?.oldestAgeSeconds ?? null, text: count(of?.pending) };
  const text = of.sampledPending === null ? UNKNOWN : `≈ ${count(of.sampledPending)}`;
  return { many: of.sampledPending, seconds: of.sampledOldestAgeSeconds, text };
}

export function exact(value: number | null | undefined): string {
  return value == null ? UNKNOWN : whole.format(value);
}

export function rate(value: number | null | undefined): string {
  if (value == null) return UNKNOWN;
  if (value === 0) return "0";
  return value < 10 ? value.toFixed(value < 0.1 ? 2 : 1) : count(value);
}

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
] as const;

/** `3d 4h`, `2m 5s`, `4.2 s`, `80 ms`. */
export function duration(seconds: number | null | undefined): string {
  if (seconds == null) return UNKNOWN;
  if (seconds < 1) return seconds <= 0 ? "0 s" : `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const rounded = Math.round(seconds);
  if (rounded < 60) return `${rounded} s`;
  for (const [at, [unit, size]] of UNITS.entries()) {
    if (rounded < size) continue;
    const rest = rounded % size;
    const [next, step] = UNITS[at + 1] ?? (["s", 1] as const);
    const more = Math.floor(rest / step);
    return `${Math.floor(rounded / size)}${unit}${more ? ` ${more}${next}` : ""}`;
  }
  return `${rounded} s`;
}

export function bytes(value: number | null | undefined): string {
  if (value == null) return UNKNOWN;
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  let left = value;
  while (left >= 1_000 && at < units.length - 1) {
    left /= 1_000;
    at += 1;
  }
  return `${left < 10 && at ? left.toFixed(1) : Math.round(left)} ${units[at]}`;
}

/** Date and time, to the second, in UTC or as this machine has it. */
export function instant(at: string | number | null | undefined, isUtc: boolean): string {
  if (at == null) return UNKNOWN;
  const parts = new Intl.DateTimeFormat("sv", {
    dateStyle: "short",
    timeStyle: "medium",
    timeZone: isUtc ? "UTC" : undefined,
  }).format(new Date(at));
  return isUtc ? `${parts}Z` : parts;
}

/** The same where there is little room: the time of today, else the date without its year. */
export function briefly(at: string | null | undefined, isUtc: boolean, now: number): string {
  if (at == null) return UNKNOWN;
  const whole = instant(at, isUtc).replace("Z", "");
  return whole.slice(0, 10) === instant(now, isUtc).slice(0, 10) ? whole.slice(11) : whole.slice(5, 16);
}

/** `in 20 s`, `4m ago`. */
export function distance(at: string | null | undefined, now: number): string {
  if (at == null) return UNKNOWN;
  const seconds = (Date.parse(at) - now) / 1_000;
  return seconds >= 0 ? `in ${duration(seconds)}` : `${duration(-seconds)} ago`;
}

export const QUEUE_MODE = "__QUEUE_MODE__";

export function groupName(name: string): string {
  return name === QUEUE_MODE ? "queue mode" : name;
}
