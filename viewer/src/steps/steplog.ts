/**
 * The log of one step, read from its beginning as far as somebody looks, and on from there: by bytes of the step, so it costs what the
 * step has, not what the run has. Lines below a fold are left out of what the view is told.
 */

import type { Events, StepText } from "../api";
import { detached, SHOWN_CHARS, type Line, type LineSource } from "../log/lines";
import { MOST_PARTS, notesOf, type Note, type Noted } from "../log/notes";
import { marksOf, type Mark } from "../log/outline";

export const MOST_CHARS = 32_000_000;
const AHEAD_LINES = 200;
const MOST_EVENT_PAGES = 40; // each has the step's text once more
export const MOST_NOTE_PARTS = 200_000; // of the step: notes of lines behind them are left out
const BYTES = new TextEncoder();

export interface StepSource {
  text(start: number, signal: AbortSignal): Promise<StepText>;
  events(after: string | null, signal: AbortSignal): Promise<Events>;
}

export class StepLog implements LineSource {
  total = 0;
  /** Nothing will follow. */
  isComplete = false;
  /** There is more than a page should hold. */
  isCut = false;
  readonly notes = new Map<number, Note[]>();
  readonly marks = new Map<number, Mark>();
  private readonly stopping = new AbortController();
  private readonly lines: Line[] = [];
  private readonly folds = new Map<number, { last: number; isFolded: boolean }>();
  private shown: number[] = [];
  private readonly starts = new Map<number, number>(); // bytes of the step before a line that is kept cut
  private next = 0;
  private rest = "";
  private restStart = 0;
  private chars = 0;
  private isDry = false; // nothing more for now
  private loading: Promise<void> | null = null;
  private noteParts = MOST_NOTE_PARTS;
  private noting: Promise<void> | null = null;
  private noted: { after: string | null; seen: number; line: number; pages: number };

  /** `begin`: the line of the whole log where events of the step begin, if that is known. */
  constructor(private readonly source: StepSource, begin: number | null = null, private readonly mostChars = MOST_CHARS) {
    this.noted = { after: begin === null ? null : String(begin), seen: 0, line: 0, pages: 0 };
  }

  get(place: number): Line | undefined {
    const number = this.shown[place];
    return number === undefined ? undefined : this.lines[number];
  }

  async want(_from: number, to: number, came: () => void): Promise<void> {
    while (!this.isDry && this.total < to + AHEAD_LINES) {
      this.loading ??= this.load().finally(() => (this.loading = null));
      await this.loading;
      came();
    }
    void this.settled().then(came);
  }

  /** Until the notes and the levels of what is there are known, as far as they will be. The log reads well without them. */
  settled(): Promise<void> {
    this.noting ??= this.note().catch(() => void (this.noted.pages = MOST_EVENT_PAGES)).finally(() => (this.noting = null));
    return this.noting;
  }

  /** Whether the step has said more meanwhile: to be asked now and then while it runs. */
  async poll(came: () => void): Promise<void> {
    if (this.isComplete || this.isCut || !this.isDry) return;
    this.isDry = false;
    await this.want(0, this.total, came);
  }

  /** Where a line of the step stands among those that are shown. */
  placeOf(number: number): number {
    const place = this.shown.findLastIndex((each) => each <= number);
    return Math.max(0, place);
  }

  texts(from: number, to: number): string[] {
    return this.lines.slice(from, to + 1).map((line) => line.text);
  }

  /** All of a line that is kept cut, as far as one answer goes. */
  async whole(number: number): Promise<string> {
    const part = await this.source.text(this.starts.get(number) ?? 0, this.stopping.signal);
    return part.text.split("\n", 1)[0] ?? "";
  }

  toggle(number: number): void {
    const fold = this.folds.get(number);
    if (!fold) return;
    fold.isFolded = !fold.isFolded;
    this.mark(number, fold);
    this.lay();
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
    this.isCut = this.chars > this.mostChars && !part.complete;
    this.isDry = part.complete || this.isCut || part.next === start;
    this.lay();
  }

  private put(whole: string, start: number): void {
    if (whole.length > SHOWN_CHARS) this.starts.set(this.lines.length, start);
    const text = whole.length > SHOWN_CHARS ? detached(whole.slice(0, SHOWN_CHARS)) : whole;
    this.lines.push({ text, number: this.lines.length, ...(text === whole ? {} : { cut: whole.length }) });
    this.chars += text.length + 40;
  }

  /** Notes and levels of the events that these lines are of. */
  private async note(): Promise<void> {
    const at = this.noted;
    if (at.line >= this.lines.length) return;
    while (at.line < this.lines.length && at.pages < MOST_EVENT_PAGES) {
      const page = await this.source.events(at.after, this.stopping.signal);
      for (const event of page.events.slice(at.seen)) {
        if (event.annotations.length) this.place(at.line, notesOf(event, Math.min(MOST_PARTS, this.noteParts)));
        for (const [line, mark] of marksOf(event)) if (mark) this.marks.set(at.line + line, mark);
        at.line += event.lines;
      }
      at.pages += page.after === null ? 0 : 1;
      at.seen = page.after === null ? page.events.length : 0;
      if (page.after === null) break;
      at.after = page.after;
    }
    this.lay();
  }

  private place(first: number, { notes, folds, parts }: Noted): void {
    this.noteParts -= parts;
    for (const [line, found] of notes) this.notes.set(first + line, found);
    for (const { line, last } of folds) {
      const fold = { last: first + last, isFolded: false };
      this.folds.set(first + line, fold);
      this.mark(first + line, fold);
    }
  }

  private mark(number: number, { last, isFolded }: { last: number; isFolded: boolean }): void {
    const line = this.lines[number];
    if (line) this.lines[number] = { ...line, fold: { lines: last - number, isFolded } };
  }

  private lay(): void {
    this.shown = [];
    for (let number = 0; number < this.lines.length; number += 1) {
      this.shown.push(number);
      const fold = this.folds.get(number);
      if (fold?.isFolded) number = fold.last;
    }
    this.total = this.shown.length;
  }
}
