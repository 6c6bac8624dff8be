/**
 * Notes beside the text of an event, as far as this page knows them: links, colours, folds. A note is somebody else's JSON: what is
 * not exactly as it should be is left out, and the text is whole without it.
 */

import type { Event } from "../api";
import { inUnits } from "./spans";

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
export interface Noted { notes: Map<number, Note[]>; folds: Fold[] }

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const MOST_NOTES = 1_000;

/** The notes of an event by the number of the line in it. */
export function notesOf(event: Event): Noted {
  const found: Noted = { notes: new Map(), folds: [] };
  const lines = event.message.split("\n");
  for (const { position, note } of event.annotations.slice(0, MOST_NOTES)) {
    if (!Number.isInteger(position) || typeof note !== "object" || note === null) continue;
    const told = note as Record<string, unknown>;
    const length = Number.isInteger(told["length"]) ? Math.max(0, told["length"] as number) : undefined;
    if (told["kind"] === "fold") addFold(found, lines, position, length);
    else addNote(found, event.message, lines, position, length ?? 0, lookOf(told));
  }
  return found;
}

/** An address of http or https as the browser writes it, or nothing: no script, no file, no other program is started by a log. */
export function safeLink(address: unknown): string | undefined {
  if (typeof address !== "string" || !URL.canParse(address)) return undefined;
  const url = new URL(address);
  return url.protocol === "http:" || url.protocol === "https:" ? url.href : undefined;
}

function lookOf(told: Record<string, unknown>): Omit<Note, "from" | "to"> | undefined {
  if (told["kind"] === "link") {
    const href = safeLink(told["href"]);
    return href === undefined ? undefined : { href };
  }
  if (told["kind"] !== "colour" || typeof told["colour"] !== "string") return undefined;
  const index = COLOURS.indexOf(told["colour"]);
  if (index >= 0) return { colour: index };
  return /^#[0-9a-f]{6}$/i.test(told["colour"]) ? { colour: told["colour"] } : undefined;
}

function addFold({ folds }: Noted, lines: string[], position: number, length: number | undefined): void {
  const line = lineAt(lines, position)[0];
  const last = length === undefined ? lines.length - 1 : lineAt(lines, position + length)[0];
  if (last > line) folds.push({ line, last });
}

/** A note over several lines is one for each of them. */
function addNote({ notes }: Noted, message: string, lines: string[], position: number, length: number, look: Omit<Note, "from" | "to"> | undefined): void {
  if (!look || length <= 0) return;
  const [[start, end]] = inUnits(message, [[position, position + length]]) as [[number, number]];
  let at = 0;
  lines.forEach((text, line) => {
    const [from, to] = [Math.max(0, start - at), Math.min(text.length, end - at)];
    if (from < to) notes.set(line, [...(notes.get(line) ?? []), { from, to, ...look }]);
    at += text.length + 1;
  });
}

/** The line that has a character of the message, and where that line begins; positions count characters, not units. */
function lineAt(lines: string[], position: number): [number, number] {
  let at = 0;
  for (const [line, text] of lines.entries()) {
    const behind = at + [...text].length + 1;
    if (position < behind) return [line, at];
    at = behind;
  }
  return [lines.length - 1, at];
}
