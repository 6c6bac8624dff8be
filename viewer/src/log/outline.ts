/**
 * Levels of lines and which events have data, as the server says: this page has no rule of its own. Asked for around the lines in view;
 * the log is shown without waiting for it, and reads well without it.
 */

import type { EventOutline, Severity } from "../api";

/** Lines before a place that is jumped to: where they begin an event, the lines at the place belong to it. */
const MARGIN_LINES = 200;
const PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
const MOST_MARKS = 100_000;
/** Of one event: lines behind them stay plain. */
export const MOST_MARKED_LINES = 10_000;

export interface Mark {
  /** Where the row stands out. */
  severity: Severity | null;
  /** The line is the first of an event with data, which begins at this line of the log. */
  dataLine?: number;
}
export interface OutlinePage { events: EventOutline[]; after: string | null }
type Fetch = (after: number, signal: AbortSignal) => Promise<OutlinePage>;

/** Lines [from, to) are known; the last event of them begins at `border`, and may get more lines. */
interface Known { from: number; to: number; border: number }

const STANDING_OUT: readonly (Severity | null)[] = ["WARNING", "ERROR", "CRITICAL"];

/** The marks of an event, or undefined, by the number of the line in it. */
export function* marksOf({ line, lines, severity, hasData }: EventOutline): Generator<[number, Mark | undefined]> {
  const known = STANDING_OUT.includes(severity) ? severity : null;
  for (let at = 0; at < Math.min(lines, MOST_MARKED_LINES); at += 1) {
    const hasButton = hasData && at === 0;
    yield [at, known || hasButton ? { severity: known, ...(hasButton && { dataLine: line }) } : undefined];
  }
}

export class RunOutline {
  private readonly marks = new Map<number, Mark>();
  private known: Known[] = [];
  private wanted: [number, number] = [0, 0];
  private isAsking = false;
  private readonly stopping = new AbortController();

  constructor(private readonly fetch: Fetch, private readonly pause: (ms: number) => Promise<void> = waited) {}

  get(line: number): Mark | undefined {
    return this.marks.get(line);
  }

  /** See to it that lines [from, to) are known; `came` is called when some became so. Of several calls the last one counts. */
  want(from: number, to: number, came: () => void): void {
    this.wanted = [from, to];
    if (!this.isAsking) void this.ask(came);
  }

  stop(): void {
    this.stopping.abort();
  }

  private async ask(came: () => void): Promise<void> {
    this.isAsking = true;
    let pauseMs = PAUSE_MS;
    for (let line = this.unknown(); line !== null && !this.stopping.signal.aborted; line = this.unknown()) {
      const hasGrown = await this.askFrom(line).catch(() => false);
      if (hasGrown) came();
      pauseMs = hasGrown ? PAUSE_MS : Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
      await this.pause(pauseMs); // lines of a running log come in small pieces
    }
    this.isAsking = false;
  }

  private unknown(): number | null {
    let [line, to] = this.wanted;
    for (const range of this.known) if (range.from <= line && line < range.to) line = range.to;
    return line < to ? line : null;
  }

  private async askFrom(line: number): Promise<boolean> {
    const before = this.known.find((range) => range.to === line);
    let next: number | null = before?.border ?? Math.max(0, line - MARGIN_LINES);
    let end = 0;
    if (this.marks.size > MOST_MARKS) this.marks.clear(), (this.known = []);
    while (next !== null && end <= line) {
      const { events, after } = await this.fetch(next, this.stopping.signal);
      const last = events.at(-1);
      next = after === null ? null : Number(after);
      end = Math.max(next ?? 0, last ? last.line + last.lines : 0);
      for (const event of events) this.mark(event);
      if (end > line) this.join({ from: before?.from ?? line, to: end, border: last?.line ?? end });
    }
    return end > line;
  }

  private mark(event: EventOutline): void {
    for (const [line, mark] of marksOf(event)) {
      if (mark) this.marks.set(event.line + line, mark);
      else this.marks.delete(event.line + line);
    }
  }

  private join(added: Known): void {
    const apart = this.known.filter((range) => range.to < added.from || range.from > added.to);
    const joined = this.known.filter((range) => !apart.includes(range));
    const furthest = joined.reduce((one, other) => (other.to > one.to ? other : one), added);
    const from = Math.min(added.from, ...joined.map((range) => range.from));
    this.known = [...apart, { from, to: furthest.to, border: furthest.border }].sort((one, other) => one.from - other.from);
  }
}

function waited(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
