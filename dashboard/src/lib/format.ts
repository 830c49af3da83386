/**
 * Numbers and times for people. An unknown value is a dash, never 0.
 *
 * Intl is not used because its first use in a tab takes longer than loading a page.
 */

export const UNKNOWN = "–";

const SIZES = ["K", "M", "B", "T"];

export function exact(value: number | null | undefined): string {
  return value == null ? UNKNOWN : value.toFixed().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** `1,234`, `123.5K`, `10M`. */
export function count(value: number | null | undefined): string {
  if (value == null || !(value >= 100_000)) return exact(value);
  const at = Math.min(Math.floor(Math.log10(value) / 3), SIZES.length);
  const tenths = Math.round(value / 10 ** (3 * at - 1));
  return tenths >= 10_000 && at < SIZES.length ? `1${SIZES[at]}` : `${tenths / 10}${SIZES[at - 1]}`;
}

/** `1 message`, `1,234 messages`. Pass irregular plurals as `more`. */
export function plural(many: number | null | undefined, one: string, more = `${one}s`): string {
  return `${count(many)} ${many === 1 ? one : more}`;
}

/** Pending messages of one queue, or of several. */
export interface Backlog {
  pending: number | null;
  oldestAgeSeconds: number | null;
  sampledPending: number | null;
  sampledOldestAgeSeconds: number | null;
}

/** Size and age of a backlog: exact, or the last sample if it is too large to count. */
export function backlog(of: Backlog | null | undefined): { many: number | null; seconds: number | null; text: string } {
  if (!of || of.pending !== null)
    return { many: of?.pending ?? null, seconds: of?.oldestAgeSeconds ?? null, text: count(of?.pending) };
  const text = of.sampledPending === null ? UNKNOWN : `≈ ${count(of.sampledPending)}`;
  return { many: of.sampledPending, seconds: of.sampledOldestAgeSeconds, text };
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

/** `1.2 MB/s`. */
export function byteRate(value: number | null | undefined): string {
  return value == null ? UNKNOWN : `${bytes(value)}/s`;
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** `2030-01-31T10:00:00.000`, in UTC or local time. */
function iso(at: string | number, isUtc: boolean): string {
  const date = new Date(at);
  const minutes = isUtc ? 0 : date.getTimezoneOffset();
  return new Date(date.getTime() - minutes * 60_000).toISOString().slice(0, -1);
}

/** Date and time, to the second. */
export function dateTime(at: string | number | null | undefined, isUtc: boolean): string {
  if (at == null) return UNKNOWN;
  return iso(at, isUtc).slice(0, 19).replace("T", " ") + (isUtc ? "Z" : "");
}

/** Axis label: hours and minutes, or the date if a step is a day or longer. */
export function tick(seconds: number, step: number, isUtc: boolean): string {
  const at = iso(seconds * 1_000, isUtc);
  return step >= 86_400 ? `${Number(at.slice(8, 10))} ${MONTHS[Number(at.slice(5, 7)) - 1]}` : at.slice(11, 16);
}

/** Short form for narrow columns: the time if it is today, otherwise the date without the year. */
export function shortTime(at: string | null | undefined, isUtc: boolean, now: number): string {
  if (at == null) return UNKNOWN;
  const whole = dateTime(at, isUtc).replace("Z", "");
  return whole.slice(0, 10) === dateTime(now, isUtc).slice(0, 10) ? whole.slice(11) : whole.slice(5, 16);
}

/** `in 20 s`, `4m ago`. */
export function relativeTime(at: string | null | undefined, now: number): string {
  if (at == null) return UNKNOWN;
  const seconds = (Date.parse(at) - now) / 1_000;
  return seconds >= 0 ? `in ${duration(seconds)}` : `${duration(-seconds)} ago`;
}

export const QUEUE_MODE = "__QUEUE_MODE__";

export function groupName(name: string): string {
  return name === QUEUE_MODE ? "queue mode" : name;
}
