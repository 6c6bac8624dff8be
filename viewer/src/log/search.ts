/** A search in the run's log. The server searches page by page from the first line; found matches can be navigated immediately. */

import { api, type Grep, type Match } from "../api";
import type { SearchQuery } from "../place";
import { inUnits, type Span } from "./spans";

export const MAX_MATCHES = 10_000;
const PAGE_MATCHES = 500;
const MAX_MATCH_CHARS = 2_000; // of a longer line, the server returns a part

export type SearchState = "none" | "searching" | "done" | "full" | "failed";

interface Hit { spans: Span[]; text: string }

export class Search {
  state: SearchState = "none";
  /** Numbers of matching lines, ascending. */
  lines: number[] = [];
  /** Total number of matches in these lines. */
  matches = 0;
  scannedLines = 0;
  current = -1;
  private hits = new Map<number, Hit>();
  private after: string | null = null;
  private query: SearchQuery | null = null;
  private stop: AbortController | null = null;

  constructor(
    private readonly fqn: string,
    private readonly runId: string,
    private readonly changed: () => void,
    private readonly failed: (error: unknown) => void,
  ) {}

  /** Start a new search; an empty text clears it. */
  async start(query: SearchQuery): Promise<void> {
    this.clear();
    if (!query.text) return this.changed();
    this.query = query;
    await this.resume();
  }

  /** Continue after MAX_MATCHES, an error, or the former end of the log. */
  async resume(): Promise<void> {
    if (!this.query || this.state === "searching") return;
    const stop = (this.stop = new AbortController());
    const limit = this.lines.length + MAX_MATCHES;
    this.state = "searching";
    this.changed();
    try {
      do {
        this.take(await this.page(this.query, stop.signal));
        this.changed();
      } while (this.after !== null && this.lines.length < limit);
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
    Object.assign(this, { state: "none", lines: [], matches: 0, scannedLines: 0, current: -1, after: null, query: null });
    this.hits = new Map();
  }

  isMatch(line: number): boolean {
    return this.hits.has(line);
  }

  /** The whole text of a matching line, if the server returned it. */
  textOf(line: number): string | undefined {
    const text = this.hits.get(line)?.text;
    return text !== undefined && text.length < MAX_MATCH_CHARS ? text : undefined;
  }

  get currentLine(): number | undefined {
    return this.lines[this.current];
  }

  /**
   * Matches within the loaded text of a line. Of a long line, the server returns only the text around the first match, and only the last
   * state is loaded.
   */
  spansOf(line: number, raw: string): Span[] {
    const hit = this.hits.get(line);
    if (!hit) return [];
    const state = raw.includes(hit.text) ? 0 : hit.text.replace(/\r$/, "").lastIndexOf("\r") + 1;
    const shift = raw.indexOf(hit.text.slice(state)) - state;
    if (shift < -state) return [];
    return inUnits(hit.text, hit.spans).filter(([from]) => from >= state).map(([from, to]) => [from + shift, to + shift]);
  }

  /** Go to the next or previous match and return its line. Without a current match, start at the match nearest to `line`. */
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

  private page({ text, isRegex, isCaseIgnored }: SearchQuery, signal: AbortSignal): Promise<Grep> {
    const query = { q: text, regex: isRegex, ignoreCase: isCaseIgnored, after: this.after, limit: PAGE_MATCHES };
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
