/**
 * The lines of a run that are at hand: those in view, those around them, and as many of the others as fit. Long lines are kept cut:
 * whoever wants all of one asks for it alone.
 */

import type { Page } from "../api";

export const SHOWN_CHARS = 4_000;
const BLOCK_LINES = 256;
const MAX_CHARS = 24_000_000;
const PAGE_LINES = 256;

export interface Line {
  text: string;
  /** Its number, where lines before it are folded away. */
  number?: number;
  /** So many lines below it belong to it, and can be folded. */
  fold?: { lines: number; isFolded: boolean };
  /** Characters of the whole line, where `text` is not all of it. */
  cut?: number;
}

/** What a view needs of a log. */
export interface LineSource {
  readonly total: number;
  get(line: number): Line | undefined;
  /** See to it that these are at hand; `came` is called when some came. Throws ApiError. */
  want(from: number, to: number, came: () => void): Promise<void>;
}

export type Fetch = (after: number, limit: number, signal: AbortSignal) => Promise<Page>;

interface Block { lines: (Line | undefined)[]; chars: number }

export class Lines implements LineSource {
  total = 0;
  private readonly blocks = new Map<number, Block>(); // the one used longest ago comes first
  private chars = 0;
  private fetching: { from: number; to: number; stop: AbortController } | null = null;

  constructor(private readonly fetch: Fetch, private readonly maxChars = MAX_CHARS) {}

  get(line: number): Line | undefined {
    return this.blocks.get(Math.floor(line / BLOCK_LINES))?.lines[line % BLOCK_LINES];
  }

  /** Lines that came, whoever asked for them. */
  put(first: number, texts: string[]): void {
    texts.forEach((text, index) => this.putOne(first + index, text));
    this.total = Math.max(this.total, first + texts.length);
    this.evict();
  }

  /** What a page said, its first line being this one. */
  putPage(first: number, page: Page): number {
    const count = Math.max(0, (page.after === null ? page.total : Number(page.after)) - first);
    this.put(first, page.logs.split("\n").slice(0, count));
    this.total = Math.max(this.total, page.total);
    return count;
  }

  /**
   * Fetch what is missing of [from, to), page by page; the rest is left when another range is asked for meanwhile. `came` is called
   * after each page. Throws ApiError.
   */
  async want(from: number, to: number, came: () => void): Promise<void> {
    this.touch(from, to);
    const first = this.missing(from, to);
    if (first < 0 || (this.fetching && first >= this.fetching.from && first < this.fetching.to)) return;
    this.fetching?.stop.abort();
    const mine = { from: first, to: Math.max(to, first + PAGE_LINES), stop: new AbortController() };
    this.fetching = mine;
    try {
      for (let next = first; next >= 0 && next < this.total; next = this.missing(next, Math.min(to, this.total))) {
        const page = await this.fetch(next, Math.min(PAGE_LINES, mine.to - next), mine.stop.signal);
        const count = this.putPage(next, page);
        came();
        if (!count) break;
      }
    } finally {
      if (this.fetching === mine) this.fetching = null;
    }
  }

  stop(): void {
    this.fetching?.stop.abort();
  }

  private putOne(line: number, whole: string): void {
    const block = this.blockOf(Math.floor(line / BLOCK_LINES));
    const text = whole.length > SHOWN_CHARS ? detached(whole.slice(0, SHOWN_CHARS)) : whole;
    const before = block.lines[line % BLOCK_LINES];
    if (before?.text === text) return;
    block.lines[line % BLOCK_LINES] = text === whole ? { text } : { text, cut: whole.length };
    const added = text.length - (before?.text.length ?? 0);
    block.chars += added;
    this.chars += added;
  }

  private blockOf(number: number): Block {
    let block = this.blocks.get(number);
    if (!block) this.blocks.set(number, (block = { lines: [], chars: BLOCK_LINES * 40 }));
    else return block;
    this.chars += block.chars; // what a line costs beside its text
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

/** A slice keeps the whole text in memory; a copy of it does not. */
export function detached(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}
