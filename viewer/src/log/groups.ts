/** Groups of lines as CI systems mark them: `::group::` (GitHub), `##[group]` (GitHub, Azure), and `section_start:TIME:NAME` (GitLab). */

import type { Grep } from "../api";

export const MAX_REQUESTS = 10;
const START = /^(?:\S{1,40} )?(?:::group::|##\[group\])/;
const BOUNDARY = String.raw`^(?:\S{1,40} )?(?:::(?:end)?group::|##\[(?:end)?group\])`;
const IS_END = /^(?:\S{1,40} )?(?:::endgroup::|##\[endgroup\])/;
const SECTION_END = /(?:^|[\r\s]|\x1b\[0K)section_end:\d{1,20}:([\w.-]{1,200})(?=\s|\x1b|$)/;
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

/** Finds groups in lines that are read in order, from the first one. Memory: an entry for each section that has not ended. */
export class GroupScan {
  private open: number | null = null; // these groups do not nest
  private readonly sections = new Map<string, number>();

  /** The groups that end with this line, or before it because the next one begins here: first and last line. */
  next(number: number, text: string): [number, number][] {
    if (!text.includes("group") && !text.includes("section_")) return [];
    const isStart = endPattern(text) !== null;
    const section = SECTION.exec(text)?.[1];
    const firsts = [this.endedGroup(number, isStart && section === undefined, text), this.endedSection(text)];
    if (section !== undefined) this.sections.set(section, number);
    return firsts.flatMap((first): [number, number][] => (first === undefined ? [] : [[first, isStart ? number - 1 : number]]));
  }

  private endedGroup(number: number, isStart: boolean, text: string): number | undefined {
    if (!isStart && !IS_END.test(text)) return undefined;
    const first = this.open ?? undefined;
    this.open = isStart ? number : null;
    return first;
  }

  private endedSection(text: string): number | undefined {
    const name = SECTION_END.exec(text)?.[1];
    const first = name === undefined ? undefined : this.sections.get(name);
    if (name !== undefined) this.sections.delete(name);
    return first;
  }
}
