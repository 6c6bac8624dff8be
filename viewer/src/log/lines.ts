/**
 * A cache of a run's lines: those in view, their neighbours, and others up to a limit. Of a long line, the beginning of its last state
 * is stored; the full text of a line is fetched separately.
 */

import type { Page } from "../api";
import { lastStateFrom } from "./ansi";
import type { GroupFold, StepHeader } from "./folds";

export const MAX_LINE_CHARS = 4_000;
const BLOCK_LINES = 256;
const MAX_CHARS = 24_000_000;
const PAGE_LINES = 256;

export interface Line {
  text: string;
  /** A group begins here. */
  fold?: GroupFold;
  /** A range of a step begins here. */
  step?: StepHeader;
  /** Length of the full line, if `text` is truncated. */
  fullLength?: number;
  /** Offset of `text` in the full line, if it is not its beginning. */
  from?: number;
}

/** A log as a view reads it. */
export interface LineSource {
  readonly total: number;
  get(line: number): Line | undefined;
  /** The number of a line in the log: it differs from its index after lines that are not shown. */
  number(index: number): number;
  /** Load missing lines of [from, to). `onLoad` is called when lines were loaded. Throws ApiError. */
  ensureLoaded(from: number, to: number, onLoad: () => void): Promise<void>;
}

export type Fetch = (after: number, limit: number, signal: AbortSignal) => Promise<Page>;

interface Block { lines: (Line | undefined)[]; chars: number }

export class Lines {
  total = 0;
  private readonly blocks = new Map<number, Block>(); // least recently used first
  private chars = 0;
  private fetching: { from: number; to: number; stop: AbortController } | null = null;

  constructor(private readonly fetch: Fetch, private readonly maxChars = MAX_CHARS) {}

  get(line: number): Line | undefined {
    return this.blocks.get(Math.floor(line / BLOCK_LINES))?.lines[line % BLOCK_LINES];
  }

  /** Store lines of a response or of the stream. */
  put(first: number, texts: string[]): void {
    texts.forEach((text, index) => this.putOne(first + index, text));
    this.total = Math.max(this.total, first + texts.length);
    this.evict();
  }

  /** Store the lines of a page that starts with line `first`. Returns their number. */
  putPage(first: number, page: Page): number {
    const count = Math.max(0, (page.after === null ? page.total : Number(page.after)) - first);
    this.put(first, page.logs.split("\n").slice(0, count));
    this.total = Math.max(this.total, page.total);
    return count;
  }

  /**
   * Fetch missing lines of [from, to), page by page. A later call for another range cancels the rest. `onLoad` is called after each
   * page. `ahead`: lines to fetch at least. Throws ApiError.
   */
  async ensureLoaded(from: number, to: number, onLoad: () => void, ahead = PAGE_LINES): Promise<void> {
    this.touch(from, to);
    const first = this.missing(from, to);
    if (first < 0 || (this.fetching && first >= this.fetching.from && first < this.fetching.to)) return;
    this.fetching?.stop.abort();
    const request = { from: first, to: Math.max(to, first + ahead), stop: new AbortController() };
    this.fetching = request;
    try {
      for (let next = first; next >= 0 && next < this.total; next = this.missing(next, Math.min(to, this.total))) {
        const page = await this.fetch(next, Math.min(PAGE_LINES, request.to - next), request.stop.signal);
        const count = this.putPage(next, page);
        onLoad();
        if (!count) break;
      }
    } finally {
      if (this.fetching === request) this.fetching = null;
    }
  }

  stop(): void {
    this.fetching?.stop.abort();
  }

  private putOne(number: number, line: string): void {
    const block = this.blockOf(Math.floor(number / BLOCK_LINES));
    const stored = lineOf(line);
    const before = block.lines[number % BLOCK_LINES];
    if (before?.text === stored.text) return;
    block.lines[number % BLOCK_LINES] = stored;
    const added = stored.text.length - (before?.text.length ?? 0);
    block.chars += added;
    this.chars += added;
  }

  private blockOf(number: number): Block {
    let block = this.blocks.get(number);
    if (!block) this.blocks.set(number, (block = { lines: [], chars: BLOCK_LINES * 40 }));
    else return block;
    this.chars += block.chars; // overhead of the lines, excluding their text
    return block;
  }

  private missing(from: number, to: number): number {
    for (let line = from; line < Math.min(to, this.total); line += 1) if (!this.get(line)) return line;
    return -1;
  }

  private touch(from: number, to: number): void {
    for (let number = Math.floor(from / BLOCK_LINES); number * BLOCK_LINES < to; number += 1) {
      const block = this.blocks.get(number);
      if (block) this.blocks.delete(number), this.blocks.set(number, block);
    }
  }

  private evict(): void {
    for (const [number, block] of this.blocks) {
      if (this.chars <= this.maxChars || this.blocks.size <= 4) return;
      this.blocks.delete(number);
      this.chars -= block.chars;
    }
  }
}

/** A line as it is stored. What overwrites a progress bar is shown, however long the line is. */
export function lineOf(line: string): Line {
  if (line.length <= MAX_LINE_CHARS) return { text: line };
  const from = lastStateFrom(line);
  return { text: copyOf(line.slice(from, from + MAX_LINE_CHARS)), fullLength: line.length, ...(from && { from }) };
}

/** A copy of a slice that does not keep the original text in memory. */
function copyOf(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}
