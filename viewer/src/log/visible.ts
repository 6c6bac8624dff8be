/** The lines of a log that are shown: all, or only matches with lines around them. A view counts them by index. */

import type { Line, Lines, LineSource } from "./lines";

const MAX_GAP_LINES = 20; // lines between missing ones that are fetched with them

export class VisibleLines implements LineSource {
  private numbers: number[] | null = null; // ascending
  private readonly known = new Map<number, Line>(); // one object for each line, so that its row is kept
  private wanted: [number, number] = [0, 0];
  private onLoad: () => void = () => undefined;
  private loading: Promise<void> | null = null;

  /** `textOf`: texts that need no request. */
  constructor(private readonly lines: Lines, private readonly textOf: (line: number) => string | undefined) {}

  get total(): number {
    return this.numbers?.length ?? this.lines.total;
  }

  get isFiltered(): boolean {
    return this.numbers !== null;
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
    return this.numbers ? this.numbers[index] ?? this.lines.total : index;
  }

  /** Index of a line, or of the last one before it. */
  index(line: number): number {
    return this.numbers ? Math.max(0, this.numbers.findLastIndex((each) => each <= line)) : line;
  }

  has(line: number): boolean {
    return this.numbers === null || this.numbers[this.index(line)] === line;
  }

  /** Whether lines before this one are hidden. */
  isAfterGap(index: number): boolean {
    return this.numbers !== null && index > 0 && this.number(index - 1) !== this.number(index) - 1;
  }

  get(index: number): Line | undefined {
    const number = this.number(index);
    return this.lines.get(number) ?? (this.numbers ? this.knownLine(number) : undefined);
  }

  /** A later call replaces the range. */
  async ensureLoaded(from: number, to: number, onLoad: () => void): Promise<void> {
    if (!this.numbers) return this.lines.ensureLoaded(from, to, onLoad);
    [this.wanted, this.onLoad] = [[from, to], onLoad];
    this.loading ??= this.load().finally(() => (this.loading = null));
    return this.loading;
  }

  private async load(): Promise<void> {
    for (let range = this.missing(), last = -1; range && range[0] !== last; range = this.missing()) {
      last = range[0];
      await this.lines.ensureLoaded(...range, () => this.onLoad(), 0);
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

  private knownLine(number: number): Line | undefined {
    const text = this.known.get(number) ? undefined : this.textOf(number);
    if (text !== undefined) this.known.set(number, { text });
    return this.known.get(number);
  }
}
