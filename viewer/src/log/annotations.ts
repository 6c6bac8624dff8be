/**
 * Annotations of an event: links, colours, folds. They are untrusted JSON: invalid and unknown ones are ignored. The text is complete
 * without them.
 */

import type { Event } from "../api";

/** The style of a part of one line. Offsets are in UTF-16 units. */
export interface Annotation {
  from: number;
  to: number;
  href?: string;
  /** As in Style: 0-15 of the palette, or "#rrggbb". */
  colour?: number | string;
}

/** Lines after `line` up to `last` can be folded. Both are counted from the event's first line. */
export interface Fold { line: number; last: number }
/** Annotations by line of the event. `parts`: number of examined lines, summed over the annotations. */
export interface EventAnnotations { annotations: Map<number, Annotation[]>; folds: Fold[]; parts: number }

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const MAX_ANNOTATIONS = 1_000;
/** Of one event: an annotation has a part on each of its lines. Later lines stay plain. */
export const MAX_PARTS = 10_000;
export const MAX_PARTS_PER_LINE = 50;

/**
 * The annotations of an event, by line. Time and memory are linear in the message, the annotations and `maxParts`; annotations beyond
 * the limits are ignored.
 */
export function annotationsOf(event: Event, maxParts = MAX_PARTS): EventAnnotations {
  const result: EventAnnotations = { annotations: new Map(), folds: [], parts: 0 };
  const text = new TextIndex(event.message);
  for (const { position, note } of event.annotations.slice(0, MAX_ANNOTATIONS)) {
    if (!Number.isInteger(position) || position < 0 || typeof note !== "object" || note === null) continue;
    const fields = note as Record<string, unknown>;
    const length = Number.isInteger(fields["length"]) ? Math.max(0, fields["length"] as number) : undefined;
    if (fields["kind"] === "fold") addFold(result, text, position, length);
    else addAnnotation(result, text, position, length ?? 0, styleOf(fields), maxParts);
  }
  return result;
}

/** Offsets of the characters and lines of a message, in UTF-16 units. */
class TextIndex {
  /** Offset of each line; the last entry is the end of the message, plus one. */
  readonly starts: number[] = [0];
  private readonly units: Uint32Array | undefined; // undefined if each character is one unit

  constructor(message: string) {
    for (let at = message.indexOf("\n"); at >= 0; at = message.indexOf("\n", at + 1)) this.starts.push(at + 1);
    this.starts.push(message.length + 1);
    this.units = /[\ud800-\udfff]/.test(message) ? unitsOf(message) : undefined;
  }

  get lines(): number {
    return this.starts.length - 1;
  }

  /** Offset of a character; Infinity after the end of the message. */
  unit(position: number): number {
    return this.units ? (this.units[position] ?? Infinity) : position;
  }

  /** The line that contains an offset, or the last line: binary search. */
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

/** Offset of each character, followed by the end of the message. */
function unitsOf(message: string): Uint32Array {
  const units = new Uint32Array(message.length + 1);
  let count = 0;
  for (let at = 0; at < message.length; at += (message.codePointAt(at) ?? 0) > 0xffff ? 2 : 1) units[count++] = at;
  units[count++] = message.length;
  return units.subarray(0, count);
}

/** A normalized http or https URL, otherwise undefined: a log must not run scripts, open files or start other programs. */
export function safeLink(address: unknown): string | undefined {
  if (typeof address !== "string" || !URL.canParse(address)) return undefined;
  const url = new URL(address);
  return url.protocol === "http:" || url.protocol === "https:" ? url.href : undefined;
}

function styleOf(fields: Record<string, unknown>): Omit<Annotation, "from" | "to"> | undefined {
  if (fields["kind"] === "link") {
    const href = safeLink(fields["href"]);
    return href === undefined ? undefined : { href };
  }
  if (fields["kind"] !== "colour" || typeof fields["colour"] !== "string") return undefined;
  const index = COLOURS.indexOf(fields["colour"]);
  if (index >= 0) return { colour: index };
  return /^#[0-9a-f]{6}$/i.test(fields["colour"]) ? { colour: fields["colour"] } : undefined;
}

function addFold({ folds }: EventAnnotations, text: TextIndex, position: number, length: number | undefined): void {
  const line = text.line(text.unit(position));
  const last = length === undefined ? text.lines - 1 : text.line(text.unit(position + length));
  if (last > line) folds.push({ line, last });
}

/** Add an annotation, split at line breaks. */
function addAnnotation(result: EventAnnotations, text: TextIndex, position: number, length: number, style: Omit<Annotation, "from" | "to"> | undefined, maxParts: number): void {
  if (!style || length <= 0) return;
  const [start, end] = [text.unit(position), text.unit(position + length)];
  for (let line = text.line(start); line < text.lines && result.parts < maxParts; line += 1) {
    result.parts += 1; // empty lines count too
    const [begin, next] = [text.starts[line] ?? 0, text.starts[line + 1] ?? 0];
    if (begin >= end) return;
    const [from, to] = [Math.max(0, start - begin), Math.min(next - 1, end) - begin];
    if (from >= to) continue;
    const parts = result.annotations.get(line) ?? [];
    if (parts.length >= MAX_PARTS_PER_LINE) continue;
    result.annotations.set(line, parts);
    parts.push({ from, to, ...style });
  }
}
