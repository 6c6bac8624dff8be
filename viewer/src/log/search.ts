/** A search in the whole run: the server looks, page by page, from the first line on; what it found so far can be walked already. */

import { api, type Grep, type Match } from "../api";
import { inUnits, type Span } from "./spans";

export const MOST_MATCHES = 10_000;
const PAGE_MATCHES = 500;

export interface Asked { text: string; isRegex: boolean; isCaseIgnored: boolean }
export type SearchState = "none" | "looking" | "done" | "full" | "failed";

interface Hit { spans: Span[]; text: string }

export class Search {
  state: SearchState = "none";
  /** Lines that match, in order. */
  lines: number[] = [];
  /** How often they match in all. */
  matches = 0;
  scannedLines = 0;
  current = -1;
  private hits = new Map<number, Hit>();
  private after: string | null = null;
  private asked: Asked | null = null;
  private stop: AbortController | null = null;

  constructor(
    private readonly fqn: string,
    private readonly runId: string,
    private readonly changed: () => void,
    private readonly failed: (error: unknown) => void,
  ) {}

  /** Look for something else; an empty text for nothing. */
  async start(asked: Asked): Promise<void> {
    this.clear();
    if (!asked.text) return this.changed();
    this.asked = asked;
    await this.goOn();
  }

  /** Look on, behind what was found: after MOST_MATCHES, a failure, or the log's end so far. */
  async goOn(): Promise<void> {
    if (!this.asked || this.state === "looking") return;
    const stop = (this.stop = new AbortController());
    const most = this.lines.length + MOST_MATCHES;
    this.state = "looking";
    this.changed();
    try {
      do {
        this.take(await this.page(this.asked, stop.signal));
        this.changed();
      } while (this.after !== null && this.lines.length < most);
      this.state = this.after === null ? "done" : "full";
    } catch (error) {
      if (stop.signal.aborted) return;
      this.state = "failed";
      this.failed(error);
    }
    this.changed();
  }

  clear(): void {
    this.stop?.abort();
    Object.assign(this, { state: "none", lines: [], matches: 0, scannedLines: 0, current: -1, after: null, asked: null });
    this.hits = new Map();
  }

  isMatch(line: number): boolean {
    return this.hits.has(line);
  }

  get currentLine(): number | undefined {
    return this.lines[this.current];
  }

  /** Where a line matches, in the raw text that is at hand. A match's text is cut around its first place, in long lines. */
  spansOf(line: number, raw: string): Span[] {
    const hit = this.hits.get(line);
    if (!hit) return [];
    const shift = raw.startsWith(hit.text) ? 0 : raw.indexOf(hit.text);
    return shift < 0 ? [] : inUnits(hit.text, hit.spans).map(([from, to]) => [from + shift, to + shift]);
  }

  /** The next match after this one, or the one before it; of none yet, the one after (or before) this line. */
  step(by: 1 | -1, line: number): number | undefined {
    if (!this.lines.length) return undefined;
    if (this.current < 0) this.current = this.nearest(by, line);
    else this.current = (this.current + by + this.lines.length) % this.lines.length;
    return this.lines[this.current];
  }

  private nearest(by: 1 | -1, line: number): number {
    const index = by === 1 ? this.lines.findIndex((each) => each >= line) : this.lines.findLastIndex((each) => each < line);
    return index >= 0 ? index : by === 1 ? 0 : this.lines.length - 1;
  }

  private page(asked: Asked, signal: AbortSignal): Promise<Grep> {
    const query = { q: asked.text, regex: asked.isRegex, ignoreCase: asked.isCaseIgnored, after: this.after, limit: PAGE_MATCHES };
    return api.grep(this.fqn, this.runId, query, signal);
  }

  private take(page: Grep): void {
    for (const match of page.matches) this.add(match);
    this.scannedLines += page.scannedLines;
    this.after = page.after;
  }

  private add(match: Match): void {
    if (this.hits.has(match.line)) return;
    this.hits.set(match.line, { spans: match.spans, text: match.text });
    this.lines.push(match.line);
    this.matches += Math.max(1, match.spans.length);
  }
}
