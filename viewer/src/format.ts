/** Formats numbers, sizes, durations and times, in the browser's time zone. */

const COUNT = new Intl.NumberFormat("en-US");
const TIME = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat("sv-SE", { timeStyle: "medium" });

const ZONE = new Intl.DateTimeFormat("en-US", { timeZoneName: "short" });

export const count = (value: number): string => COUNT.format(value);
export const plural = (value: number, one: string, more = `${one}s`): string => `${count(value)} ${value === 1 ? one : more}`;
export const time = (ms: number): string => TIME.format(ms);
/** The value of an input of a date and a time, in the browser's time zone. */
export const localInput = (ms: number): string => time(ms).replace(" ", "T");
export const clock = (ms: number): string => CLOCK.format(ms);
/** Name of the browser's time zone at a time: UTC, GMT+2. */
export const zone = (ms: number): string => ZONE.formatToParts(ms).find((part) => part.type === "timeZoneName")?.value ?? "local time";
/** Name of the source of displayed times. */
export const clockName = (clock: "lines" | "arrival"): string => (clock === "lines" ? "timestamps in the lines" : "time of storage");

export function size(bytes: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function duration(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

export function ago(ms: number, now = Date.now()): string {
  if (now - ms < 5_000) return "just now";
  return `${duration(now - ms).replace(/^(\d+ (?:min|h|d)) .*/, "$1")} ago`;
}
