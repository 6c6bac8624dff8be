/** The lines of a log that are shown: all but folded ones, or only matches with lines around them. A view counts them by index. */

import { Folds } from "./folds";
import { endPattern } from "./groups";
import type { Line, Lines, LineSource } from "./lines";

const MAX_GAP_LINES = 20; // lines between missing ones that are fetched with them

export class VisibleLines implements LineSource {
  private numbers: number[] | null = null; // ascending
  readonly folds = new Folds();
  private readonly starts = new WeakMap<Line, Line>(); // lines with their folds
  private readonly known = new Map<number, Line>(); // one object for each line, so that its row is kept
  private wanted: [number, number] = [0, 0];
  private onLoad: () => void = () => undefined;
  private loading: Promise<void> | null = null;

  /** `textOf`: texts that need no request. */
  constructor(private readonly lines: Lines, private readonly textOf: (line: number) => string | undefined) {}

  get total(): number {
    const end = this.lines.total - 1; // a step may be listed with lines that are not known yet
    return this.numbers?.length ?? this.folds.hidden.reduce((total, [first, last]) => total - Math.max(0, Math.min(last, end) - first + 1), this.lines.total);
  }

  get isFiltered(): boolean {
    return this.numbers !== null;
  }

  /** Whether lines are hidden. */
  get isPartial(): boolean {
    return this.isFiltered || this.folds.hidden.length > 0;
  }

  /** Show only these lines, in order, with `context` lines before and after each; null: all. */
  filter(matches: number[] | null, context = 0): void {
    this.numbers = matches && [];
    let next = 0;
    for (const match of matches ?? []) {
      const end = Math.min(match + context + 1, this.lines.total);
      for (next = Math.max(next, match - context); next < end; next += 1) this.numbers?.push(next);
    }
    if (!matches) this.known.clear();
  }

  number(index: number): number {
    if (this.numbers) return this.numbers[index] ?? this.lines.total;
    let number = index;
    for (const [first, last] of this.folds.hidden) if (number >= first) number += last - first + 1;
    return number;
  }

  /** Index of a line, or of the last one before it. */
  index(line: number): number {
    if (this.numbers) return Math.max(0, this.numbers.findLastIndex((each) => each <= line));
    let index = line;
    for (const [first, last] of this.folds.hidden) if (line >= first) index -= Math.min(last, line) - first + 1;
    return index;
  }

  has(line: number): boolean {
    return this.number(this.index(line)) === line;
  }

  /** Ranges [from, to) of the lines that are shown at the indices from `first` to before `end`, each with `ahead` lines around it, apart. */
  parts(first: number, end: number, ahead: number): [number, number][] {
    const parts: [number, number][] = [];
    for (let index = first; index < end; index += 1) {
      const [from, to] = [Math.max(0, this.number(index) - ahead), Math.min(this.lines.total, this.number(index) + 1 + ahead)];
      const before = parts.at(-1);
      if (before && from <= before[1]) before[1] = to;
      else parts.push([from, to]);
    }
    return parts;
  }

  /** Whether lines before this one are hidden. */
  isAfterGap(index: number): boolean {
    return this.numbers !== null && index > 0 && this.number(index - 1) !== this.number(index) - 1;
  }

  get(index: number): Line | undefined {
    const number = this.number(index);
    const line = this.lines.get(number) ?? (this.numbers ? this.knownLine(number) : undefined);
    return line && !this.numbers ? this.withFolds(number, line) : line;
  }

  /** A later call replaces the range. */
  async ensureLoaded(from: number, to: number, onLoad: () => void): Promise<void> {
    if (!this.numbers && !this.folds.hidden.length) return this.lines.ensureLoaded(from, to, onLoad);
    [this.wanted, this.onLoad] = [[from, to], onLoad];
    this.loading ??= this.load().finally(() => (this.loading = null));
    return this.loading;
  }

  private async load(): Promise<void> {
    for (let range = this.missing(), last = -1; range && range[0] !== last; range = this.missing()) {
      last = range[0];
      await this.lines.ensureLoaded(...range, () => this.onLoad(), ...(this.numbers ? [0] : []));
    }
  }

  /** The first missing lines of the wanted ones. */
  private missing(): [number, number] | null {
    let range: [number, number] | null = null;
    for (let index = this.wanted[0]; index < Math.min(this.wanted[1], this.total); index += 1) {
      const number = this.number(index);
      if (range && number - range[1] > MAX_GAP_LINES) break;
      if (!this.get(index)) range = [range?.[0] ?? number, number + 1];
    }
    return range;
  }

  private withFolds(number: number, line: Line): Line {
    const [step, fold] = [this.folds.header(number), endPattern(line.text) === null ? undefined : this.folds.group(number)];
    if (!step && !fold) return line;
    const before = this.starts.get(line);
    if (before && JSON.stringify([before.step, before.fold]) === JSON.stringify([step, fold])) return before;
    const start = { ...line, ...(step && { step }), ...(fold && { fold }) };
    this.starts.set(line, start);
    return start;
  }

  private knownLine(number: number): Line | undefined {
    const text = this.known.get(number) ? undefined : this.textOf(number);
    if (text !== undefined) this.known.set(number, { text });
    return this.known.get(number);
  }
}
