/** Copies full lines to the clipboard. */

import { linesOf, type Page } from "../api";

export const MAX_COPIED_LINES = 20_000;
const PAGE_LINES = 5_000;

/** Full lines [from, to], fetched page by page. */
export async function fetchLines(fetch: (after: number, limit: number) => Promise<Page>, from: number, to: number): Promise<string[]> {
  const texts: string[] = [];
  const end = Math.min(to + 1, from + MAX_COPIED_LINES);
  while (from + texts.length < end) {
    const page = await fetch(from + texts.length, Math.min(PAGE_LINES, end - from - texts.length));
    const lines = linesOf(page);
    texts.push(...lines);
    if (!lines.length || page.after === null) break;
  }
  return texts.slice(0, end - from);
}

/** The clipboard API is available in secure contexts only; other pages use the deprecated command. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  if (!isCopied) throw new Error("the browser denied access to the clipboard");
}
