/** Lines of the log as they were written, onto the clipboard: not what the page makes of them. */

import { linesOf, type Page } from "../api";

export const MOST_COPIED_LINES = 20_000;
const PAGE_LINES = 5_000;

/** Whole lines [from, to], fetched page by page. */
export async function wholeLines(fetch: (after: number, limit: number) => Promise<Page>, from: number, to: number): Promise<string[]> {
  const texts: string[] = [];
  const behind = Math.min(to + 1, from + MOST_COPIED_LINES);
  while (from + texts.length < behind) {
    const page = await fetch(from + texts.length, Math.min(PAGE_LINES, behind - from - texts.length));
    const came = linesOf(page);
    texts.push(...came);
    if (!came.length || page.after === null) break;
  }
  return texts.slice(0, behind - from);
}

/** Pages that came without encryption have no clipboard: there the old way works. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  if (!isDone) throw new Error("the browser did not let this page copy");
}
