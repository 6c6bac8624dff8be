/**
 * Levels of lines, and events with data, as reported by the server: this page does not detect levels. Loaded around the lines in view;
 * the log is displayed without waiting for them.
 */

import type { EventOutline, Severity } from "../api";

/** Lines loaded before the target of a jump: an event may begin there and contain the target. */
export const MARGIN_LINES = 200;
const PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;
const MAX_MARKS = 100_000;
/** Of one event: later lines stay plain. */
export const MAX_MARKED_LINES = 10_000;

export interface Mark {
  /** Level of a highlighted row. */
  severity: Severity | null;
  /** On the first line of an event with data: its line number in the run's log. */
  dataLine?: number;
}
export interface OutlinePage { events: EventOutline[]; after: string | null }
type Fetch = (after: number, signal: AbortSignal) => Promise<OutlinePage>;

/** The marks of lines [from, to) are loaded. Their last event begins at `border`, and may get more lines. */
interface LoadedRange { from: number; to: number; border: number }

const HIGHLIGHTED: readonly (Severity | null)[] = ["WARNING", "ERROR", "CRITICAL"];

/** The mark of each line of an event, or undefined; lines are counted from the event's first. */
export function* marksOf({ line, lines, severity, hasData }: EventOutline): Generator<[number, Mark | undefined]> {
  const level = HIGHLIGHTED.includes(severity) ? severity : null;
  for (let at = 0; at < Math.min(lines, MAX_MARKED_LINES); at += 1) {
    const hasButton = hasData && at === 0;
    yield [at, level || hasButton ? { severity: level, ...(hasButton && { dataLine: line }) } : undefined];
  }
}

export class RunOutline {
  private readonly marks = new Map<number, Mark>();
  private loaded: LoadedRange[] = [];
  private requested: readonly [number, number][] = [];
  private isLoading = false;
  private readonly stopping = new AbortController();

  constructor(private readonly fetch: Fetch, private readonly pause: (ms: number) => Promise<void> = wait) {}

  get(line: number): Mark | undefined {
    return this.marks.get(line);
  }

  /** Load the marks of the lines in ranges [from, to). `onLoad` is called when marks were loaded. A later call replaces the ranges. */
  ensureLoaded(ranges: readonly [number, number][], onLoad: () => void): void {
    this.requested = ranges;
    if (!this.isLoading) void this.load(onLoad);
  }

  stop(): void {
    this.stopping.abort();
  }

  private async load(onLoad: () => void): Promise<void> {
    this.isLoading = true;
    let pauseMs = PAUSE_MS;
    for (let line = this.nextMissing(); line !== null && !this.stopping.signal.aborted; line = this.nextMissing()) {
      const hasGrown = await this.loadFrom(line).catch(() => false);
      if (hasGrown) onLoad();
      pauseMs = hasGrown ? PAUSE_MS : Math.min(2 * pauseMs, MAX_PAUSE_MS);
      await this.pause(pauseMs); // a running log grows in small steps
    }
    this.isLoading = false;
  }

  private nextMissing(): number | null {
    for (const [from, to] of this.requested) {
      const line = this.loaded.reduce((at, range) => (range.from <= at && at < range.to ? range.to : at), from);
      if (line < to) return line;
    }
    return null;
  }

  private async loadFrom(line: number): Promise<boolean> {
    const before = this.loaded.find((range) => range.to === line);
    let next: number | null = before?.border ?? Math.max(0, line - MARGIN_LINES);
    let end = 0;
    if (this.marks.size > MAX_MARKS) this.marks.clear(), (this.loaded = []);
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

  private join(added: LoadedRange): void {
    const apart = this.loaded.filter((range) => range.to < added.from || range.from > added.to);
    const joined = this.loaded.filter((range) => !apart.includes(range));
    const furthest = joined.reduce((one, other) => (other.to > one.to ? other : one), added);
    const from = Math.min(added.from, ...joined.map((range) => range.from));
    this.loaded = [...apart, { from, to: furthest.to, border: furthest.border }].sort((one, other) => one.from - other.from);
  }
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
