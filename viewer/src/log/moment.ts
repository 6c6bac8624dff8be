/** Parses the target of a jump: a line (`1,234`), a time of day (`10:05`), or a date with an optional time. Times are in the browser's zone. */

export type Target = { line: number } | { ms: number };

const CLOCK = /^(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?$/;
const DATE = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?)?(Z)?$/;

/** Parse a target; null if it is invalid. `startMs`: the run's start; a time of day is its first occurrence after it. Returned lines count from 0. */
export function parseTarget(typed: string, startMs: number): Target | null {
  const text = typed.trim();
  const digits = text.replace(/^(?:line|L|#)\s*/i, "").replace(/(?<=\d)[,_' ](?=\d{3}\b)/g, "");
  if (/^\d{1,15}$/.test(digits)) return { line: Math.max(0, Number(digits) - 1) };
  const clock = CLOCK.exec(text);
  if (clock) return ofDay(clock, startMs);
  const date = DATE.exec(text);
  return date ? ofDate(date) : null;
}

function ofDay(match: RegExpExecArray, startMs: number): Target | null {
  const at = new Date(startMs);
  at.setHours(Number(match[1]), Number(match[2]), Number(match[3] ?? 0), 0);
  const minuteBefore = startMs - 60_000; // 10:05 also matches a run that started at 10:05:40
  if (at.getTime() < minuteBefore) at.setDate(at.getDate() + 1);
  return Number(match[1]) < 24 && Number(match[2]) < 60 ? { ms: at.getTime() } : null;
}

function ofDate(match: RegExpExecArray): Target | null {
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match.slice(1, 7).map((each) => Number(each ?? 0));
  const ms = match[7] ? Date.UTC(year, month - 1, day, hour, minute, second) : new Date(year, month - 1, day, hour, minute, second).getTime();
  return Number.isFinite(ms) && month <= 12 && day <= 31 && hour < 24 ? { ms } : null;
}
