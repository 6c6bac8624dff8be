/** Finds http and https URLs in the text of a line. */

import { type Annotation, MAX_PARTS_PER_LINE, safeLink } from "./annotations";
import { withoutEscapes } from "./ansi";
import type { Line } from "./lines";

// Not within a word or path; up to a space, quote, bracket, control character, or mark that changes the writing direction.
const ADDRESS = /(?<![\w+.\-/@])https?:\/\/[^\s\x00-\x20\x7f-\xa0"'<>`{}|\\^\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+/gi;
const CLOSING: Record<string, string> = { ")": "(", "]": "[" };

/** Offsets are those of the raw line. A URL at the end of a truncated line is none, and neither is one with a user's name. */
export function linksOf({ text, fullLength = text.length, from: start = 0 }: Line): Annotation[] {
  if (!text.includes("://")) return [];
  const links: Annotation[] = [];
  for (const match of withoutEscapes(text).matchAll(ADDRESS)) {
    const address = withoutPunctuation(match[0]);
    const [from, to] = [match.index, match.index + address.length];
    const href = safeLink(address);
    if (href === undefined || new URL(href).username || (to === text.length && start + to < fullLength)) continue;
    links.push({ from, to, href });
    if (links.length === MAX_PARTS_PER_LINE) break;
  }
  return links;
}

/** Without punctuation at the end, and brackets that are opened before the URL. */
function withoutPunctuation(address: string): string {
  const open: Record<string, number> = {};
  for (const char of address) open[char] = (open[char] ?? 0) + 1;
  let end = address.length;
  for (; end > 0; end -= 1) {
    const last = address[end - 1] ?? "";
    const opening = CLOSING[last];
    if (opening === undefined ? !".,;:!?*…".includes(last) : (open[opening] ?? 0) >= (open[last] ?? 0)) break;
    open[last] = (open[last] ?? 0) - 1;
  }
  return address.slice(0, end);
}
