/** Groups of lines as CI systems mark them: `::group::` (GitHub), `##[group]` (GitHub, Azure), and `section_start:TIME:NAME` (GitLab). */

import type { Grep } from "../api";

export const MAX_REQUESTS = 10;
const START = /^(?:\S{1,40} )?(?:::group::|##\[group\])/;
const BOUNDARY = String.raw`^(?:\S{1,40} )?(?:::(?:end)?group::|##\[(?:end)?group\])`;
const SECTION = /(?:^|[\r\s]|\x1b\[0K)section_start:\d{1,20}:([\w.-]{1,200})/;

/** The pattern of lines at which the group that begins with this line may end, for the server; null: no group begins here. */
export function endPattern(text: string): string | null {
  if (text.includes("section_start:")) {
    const name = SECTION.exec(text)?.[1];
    return name === undefined ? null : String.raw`section_end:\d{1,20}:${name.replaceAll(".", "\\.")}(?:\s|\x1b|$)`;
  }
  return text.includes("group") && START.test(text) ? BOUNDARY : null;
}

/** The last line of the group that begins at `line`; null: its end is not found. `search` finds the first match from a line. */
export async function lastLine(line: number, text: string, search: (pattern: string, after: number) => Promise<Grep>): Promise<number | null> {
  const pattern = endPattern(text);
  let after: number | null = pattern === null ? null : line + 1;
  for (let request = 0; after !== null && request < MAX_REQUESTS; request += 1) {
    const page: Grep = await search(pattern ?? "", after);
    const [match] = page.matches;
    if (match) return endPattern(match.text) === null ? match.line : match.line - 1; // the next group begins there
    after = page.after === null ? null : Number(page.after);
  }
  return null;
}
