/**
 * The log of one step, loaded on demand from its beginning, by byte offset: the cost depends on the size of the step, not of the run.
 * Folded lines are hidden from the view.
 */

import type { Events, StepText } from "../api";
import { GroupScan } from "../log/groups";
import { type Line, lineOf, type LineSource, MAX_LINE_CHARS } from "../log/lines";
import { type Annotation, annotationsOf, type EventAnnotations, MAX_PARTS } from "../log/annotations";
import { marksOf, type Mark } from "../log/outline";

export const MAX_CHARS = 32_000_000;
const AHEAD_LINES = 200;
const MAX_EVENT_PAGES = 40; // each page repeats text of the step
export const MAX_STEP_PARTS = 200_000; // of annotations of a step; annotations of later lines are ignored
const BYTES = new TextEncoder();

export interface StepSource {
  text(start: number, signal: AbortSignal): Promise<StepText>;
  events(after: string | null, signal: AbortSignal): Promise<Events>;
}

export class StepLog implements LineSource {
  total = 0;
  /** The step's log is loaded, and no lines can follow. */
  isComplete = false;
  /** The size limit is reached: later lines are not loaded. */
  isTruncated = false;
  readonly annotations = new Map<number, Annotation[]>();
  readonly marks = new Map<number, Mark>();
  private readonly stopping = new AbortController();
  private readonly lines: Line[] = [];
  private readonly folds = new Map<number, { last: number; isFolded: boolean }>();
  private readonly groups = new GroupScan();
  private visible: number[] = [];
  private readonly starts = new Map<number, number>(); // byte offset in the step's log, by number of a truncated line
  private next = 0;
  private rest = "";
  private restStart = 0;
  private chars = 0;
  private isAtEnd = false; // no more text at present
  private loading: Promise<void> | null = null;
  private remainingParts = MAX_STEP_PARTS;
  private annotating: Promise<void> | null = null;
  private progress: { after: string | null; consumed: number; line: number; pages: number }; // of the annotations

  /** `begin`: the line of the run's log where the step's first event begins, if known. */
  constructor(private readonly source: StepSource, begin: number | null = null, private readonly maxChars = MAX_CHARS) {
    this.progress = { after: begin === null ? null : String(begin), consumed: 0, line: 0, pages: 0 };
  }

  get(index: number): Line | undefined {
    const number = this.visible[index];
    return number === undefined ? undefined : this.lines[number];
  }

  number(index: number): number {
    return this.visible[index] ?? index;
  }

  async ensureLoaded(_from: number, to: number, onLoad: () => void): Promise<void> {
    while (!this.isAtEnd && this.total < to + AHEAD_LINES) {
      this.loading ??= this.load().finally(() => (this.loading = null));
      await this.loading;
      onLoad();
    }
    void this.settled().then(onLoad);
  }

  /** Wait for the annotations and levels of the loaded lines. Errors are ignored: the log is usable without them. */
  settled(): Promise<void> {
    this.annotating ??= this.annotate().catch(() => void (this.progress.pages = MAX_EVENT_PAGES)).finally(() => (this.annotating = null));
    return this.annotating;
  }

  /** Load new lines of a running step. */
  async poll(onLoad: () => void): Promise<void> {
    if (this.isComplete || this.isTruncated || !this.isAtEnd) return;
    this.isAtEnd = false;
    await this.ensureLoaded(0, this.total, onLoad);
  }

  /** Index of a line, or of the fold that hides it, among the visible lines. */
  indexOf(number: number): number {
    const index = this.visible.findLastIndex((each) => each <= number);
    return Math.max(0, index);
  }

  texts(from: number, to: number): string[] {
    return this.lines.slice(from, to + 1).map((line) => line.text);
  }

  /** The full text of a line; of a truncated one, as far as one response contains it. */
  async fullLine(number: number): Promise<string> {
    const line = this.lines[number];
    if (line && line.fullLength === undefined) return line.text;
    const part = await this.source.text(this.starts.get(number) ?? 0, this.stopping.signal);
    return part.text.split("\n", 1)[0] ?? "";
  }

  toggle(number: number): void {
    const fold = this.folds.get(number);
    if (!fold) return;
    fold.isFolded = !fold.isFolded;
    this.mark(number, fold);
    this.updateVisible();
  }

  stop(): void {
    this.stopping.abort();
  }

  private async load(): Promise<void> {
    const start = this.next;
    const part = await this.source.text(start, this.stopping.signal);
    if (!this.rest) this.restStart = start;
    const texts = (this.rest + part.text).split("\n");
    this.rest = texts.pop() ?? "";
    if (part.complete && this.rest) texts.push(this.rest), (this.rest = "");
    for (const text of texts) {
      this.put(text, this.restStart);
      this.restStart += BYTES.encode(text).length + 1;
    }
    this.next = part.next;
    this.isComplete = part.complete;
    this.isTruncated = this.chars > this.maxChars && !part.complete;
    this.isAtEnd = part.complete || this.isTruncated || part.next === start;
    this.updateVisible();
  }

  private put(line: string, start: number): void {
    const stored = lineOf(line);
    if (stored.fullLength !== undefined) this.starts.set(this.lines.length, start);
    this.lines.push(stored);
    this.chars += stored.text.length + 40;
    for (const [first, last] of this.groups.next(this.lines.length - 1, line.slice(0, MAX_LINE_CHARS))) this.addFold(first, last);
  }

  /** Load the annotations and levels of the events of the loaded lines. */
  private async annotate(): Promise<void> {
    const at = this.progress;
    if (at.line >= this.lines.length) return;
    while (at.line < this.lines.length && at.pages < MAX_EVENT_PAGES) {
      const page = await this.source.events(at.after, this.stopping.signal);
      for (const event of page.events.slice(at.consumed)) {
        if (event.annotations.length) this.addAnnotations(at.line, annotationsOf(event, Math.min(MAX_PARTS, this.remainingParts)));
        for (const [line, mark] of marksOf(event)) if (mark) this.marks.set(at.line + line, mark);
        at.line += event.lines;
      }
      at.pages += page.after === null ? 0 : 1;
      at.consumed = page.after === null ? page.events.length : 0;
      if (page.after === null) break;
      at.after = page.after;
    }
    this.updateVisible();
  }

  private addAnnotations(first: number, { annotations, folds, parts }: EventAnnotations): void {
    this.remainingParts -= parts;
    for (const [line, each] of annotations) this.annotations.set(first + line, each);
    for (const { line, last } of folds) this.addFold(first + line, first + last);
  }

  private addFold(first: number, last: number): void {
    if (last <= first || this.folds.has(first)) return;
    const fold = { last, isFolded: false };
    this.folds.set(first, fold);
    this.mark(first, fold);
  }

  private mark(number: number, { last, isFolded }: { last: number; isFolded: boolean }): void {
    const line = this.lines[number];
    if (line) this.lines[number] = { ...line, fold: { lines: last - number, isFolded } };
  }

  private updateVisible(): void {
    this.visible = [];
    for (let number = 0; number < this.lines.length; number += 1) {
      this.visible.push(number);
      const fold = this.folds.get(number);
      if (fold?.isFolded) number = fold.last;
    }
    this.total = this.visible.length;
  }
}
