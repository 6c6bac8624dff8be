/** Finds the next or previous error of a run in the outline of its events, page by page. */

import type { EventOutline } from "../api";
import { MARGIN_LINES, type OutlinePage } from "./outline";

/** Of one search; the next one continues. */
export const MAX_REQUESTS = 20;
const WINDOW_LINES = 800; // of a search backwards: with the margin as many events at most as one response has

/** `line`: where the error begins; null: none between the start of the search and `reached`. `isEnd`: there is none further on. */
export interface FoundError { line: number | null; reached: number; isEnd: boolean }
type Fetch = (after: number) => Promise<OutlinePage>;

/** An error that begins after `line`. The outline is read from some lines before it: an event may begin there and contain it. */
export async function nextError(fetch: Fetch, line: number): Promise<FoundError> {
  let after = Math.max(0, line - MARGIN_LINES);
  for (let request = 0; request < MAX_REQUESTS; request += 1) {
    const page = await fetch(after);
    const error = page.events.find((event) => isError(event) && event.line > line);
    if (error) return { line: error.line, reached: error.line, isEnd: false };
    if (page.after === null || Number(page.after) <= after) return { line: null, reached: after, isEnd: true };
    after = Number(page.after);
  }
  return { line: null, reached: Math.max(line, after - 1), isEnd: false };
}

/** The last error that begins before `line`. */
export async function previousError(fetch: Fetch, line: number): Promise<FoundError> {
  let to = line;
  for (let requests = 0; to > 0 && requests < MAX_REQUESTS; ) {
    const from = Math.max(0, to - WINDOW_LINES);
    let last: number | null = null;
    for (let after: number | null = Math.max(0, from - MARGIN_LINES); after !== null && after < to; requests += 1) {
      const page: OutlinePage = await fetch(after);
      last = page.events.findLast((event) => isError(event) && event.line >= from && event.line < to)?.line ?? last;
      after = page.after === null || Number(page.after) <= after ? null : Number(page.after);
    }
    if (last !== null) return { line: last, reached: last, isEnd: false };
    to = from;
  }
  return { line: null, reached: to, isEnd: to === 0 };
}

const isError = ({ severity }: EventOutline): boolean => severity === "ERROR" || severity === "CRITICAL";
