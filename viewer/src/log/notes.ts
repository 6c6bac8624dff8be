/**
 * Notes beside the text of an event, as far as this page knows them: links, colours, folds. A note is somebody else's JSON: what is
 * not exactly as it should be is left out, and the text is whole without it.
 */

import type { Event } from "../api";

/** What a note says of a part of one line, in UTF-16 units. */
export interface Note {
  from: number;
  to: number;
  href?: string;
  /** As in Style: 0-15 of the palette, or "#rrggbb". */
  colour?: number | string;
}

/** Lines of an event, from its first: those behind `line` as far as `last` can be folded. */
export interface Fold { line: number; last: number }
/** `parts`: how many lines were looked at, summed over the notes. */
export interface Noted { notes: Map<number, Note[]>; folds: Fold[]; parts: number }

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const MOST_NOTES = 1_000;
/** Of one event: a note over many lines is a part of each. Lines behind the last part stay plain. */
export const MOST_PARTS = 10_000;
export const MOST_PARTS_OF_A_LINE = 50;

/**
 * The notes of an event by the number of the line in it: time and memory are linear in the message, the notes and `mostParts`. What is
 * beyond the limits is left out.
 */
export function notesOf(event: Event, mostParts = MOST_PARTS): Noted {
  const found: Noted = { notes: new Map(), folds: [], parts: 0 };
  const text = new Places(event.message);
  for (const { position, note } of event.annotations.slice(0, MOST_NOTES)) {
    if (!Number.isInteger(position) || position < 0 || typeof note !== "object" || note === null) continue;
    const fields = note as Record<string, unknown>;
    const length = Number.isInteger(fields["length"]) ? Math.max(0, fields["length"] as number) : undefined;
    if (fields["kind"] === "fold") addFold(found, text, position, length);
    else addNote(found, text, position, length ?? 0, lookOf(fields), mostParts);
  }
  return found;
}

/** Where characters and lines of a message stand, in UTF-16 units. */
class Places {
  /** Where each line begins; the last entry is where one more would. */
  readonly starts: number[] = [0];
  private readonly units: Uint32Array | undefined; // undefined: each character is one unit

  constructor(message: string) {
    for (let at = message.indexOf("\n"); at >= 0; at = message.indexOf("\n", at + 1)) this.starts.push(at + 1);
    this.starts.push(message.length + 1);
    this.units = /[\ud800-\udfff]/.test(message) ? unitsOf(message) : undefined;
  }

  get lines(): number {
    return this.starts.length - 1;
  }

  /** Where a character stands; behind the end for one that is not there. */
  unit(position: number): number {
    return this.units ? (this.units[position] ?? Infinity) : position;
  }

  /** The line that has this unit, the last one for units behind the end: binary search. */
  line(unit: number): number {
    let low = 0;
    for (let high = this.lines - 1; low < high; ) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.starts[middle] ?? 0) <= unit) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** Where each character begins, and behind them the end. */
function unitsOf(message: string): Uint32Array {
  const units = new Uint32Array(message.length + 1);
  let count = 0;
  for (let at = 0; at < message.length; at += (message.codePointAt(at) ?? 0) > 0xffff ? 2 : 1) units[count++] = at;
  units[count++] = message.length;
  return units.subarray(0, count);
}

/** An address of http or https as the browser writes it, or nothing: no script, no file, no other program is started by a log. */
export function safeLink(address: unknown): string | undefined {
  if (typeof address !== "string" || !URL.canParse(address)) return undefined;
  const url = new URL(address);
  return url.protocol === "http:" || url.protocol === "https:" ? url.href : undefined;
}

function lookOf(fields: Record<string, unknown>): Omit<Note, "from" | "to"> | undefined {
  if (fields["kind"] === "link") {
    const href = safeLink(fields["href"]);
    return href === undefined ? undefined : { href };
  }
  if (fields["kind"] !== "colour" || typeof fields["colour"] !== "string") return undefined;
  const index = COLOURS.indexOf(fields["colour"]);
  if (index >= 0) return { colour: index };
  return /^#[0-9a-f]{6}$/i.test(fields["colour"]) ? { colour: fields["colour"] } : undefined;
}

function addFold({ folds }: Noted, text: Places, position: number, length: number | undefined): void {
  const line = text.line(text.unit(position));
  const last = length === undefined ? text.lines - 1 : text.line(text.unit(position + length));
  if (last > line) folds.push({ line, last });
}

/** A note over several lines is one for each of them. */
function addNote(found: Noted, text: Places, position: number, length: number, look: Omit<Note, "from" | "to"> | undefined, mostParts: number): void {
  if (!look || length <= 0) return;
  const [start, end] = [text.unit(position), text.unit(position + length)];
  for (let line = text.line(start); line < text.lines && found.parts < mostParts; line += 1) {
    found.parts += 1; // a line without a part is work too
    const [begin, next] = [text.starts[line] ?? 0, text.starts[line + 1] ?? 0];
    if (begin >= end) return;
    const [from, to] = [Math.max(0, start - begin), Math.min(next - 1, end) - begin];
    if (from >= to) continue;
    const parts = found.notes.get(line) ?? [];
    if (parts.length >= MOST_PARTS_OF_A_LINE) continue;
    found.notes.set(line, parts);
    parts.push({ from, to, ...look });
  }
}
