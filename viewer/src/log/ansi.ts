/**
 * Parses a line with terminal escapes into styled pieces of plain text. Colours and text styles are kept, other escapes are removed, and
 * remaining control characters are replaced by visible signs. Pieces become text nodes, so that a line cannot contain markup.
 * Each line starts with the default style: it can be parsed without the lines before it.
 */

export interface Style {
  /** Index 0-15 of the palette, or "#rrggbb". */
  fg?: number | string;
  bg?: number | string;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
  strike?: boolean;
  inverse?: boolean;
}

export interface Piece {
  text: string;
  style: Style;
  /** Offset in the raw line, in UTF-16 units. */
  at: number;
  /** The text is a visible sign in place of a control character. */
  isControl?: boolean;
}

// CSI; OSC, DCS, SOS, PM and APC up to their terminator, or only the introducer if there is none, so that no text is hidden; two-letter escapes.
const ESCAPE = /(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)|\x1b[ -/]*[0-~]/g;
// Control characters except the tab; marks that change the writing direction; separators that some programs treat as line breaks.
const CONTROL = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

export function parseLine(raw: string): Piece[] {
  const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
  const pieces: Piece[] = [];
  let style: Style = {};
  let from = 0;
  for (const match of line.matchAll(ESCAPE)) {
    addText(pieces, line.slice(from, match.index), style, from);
    if (match[2] === "m" && !/[<-?]/.test(match[1] ?? "")) style = restyled(style, match[1] ?? "");
    from = match.index + match[0].length;
  }
  addText(pieces, line.slice(from), style, from);
  return pieces;
}

/** The displayed text without styles. */
export function plain(raw: string): string {
  return parseLine(raw).map((piece) => piece.text).join("");
}

/** The line with spaces in place of escape sequences: offsets stay the same. */
export const withoutEscapes = (raw: string): string => raw.replace(ESCAPE, (escape) => " ".repeat(escape.length));

/** The line as displayed and copied: the last state, without escape sequences. Other control characters are kept. */
export function copyable(raw: string): string {
  const states = raw.replace(ESCAPE, "").replace(/[\x1b\x9b]/g, "").split("\r");
  return states.findLast((state) => state !== "") ?? "";
}

/** Full text for display, each state of a line overwritten by carriage returns in a line of its own. */
export const allStates = (raw: string): string => raw.replace(/\r$/, "").split("\r").map(plain).join("\n");

/** The displayed text of several lines. */
export const shown = (text: string): string => text.split("\n").map(plain).join("\n");

/**
 * What a terminal leaves of a line that is overwritten after carriage returns, such as a progress bar: index of the first piece of the last
 * state, and the number of earlier states with text.
 */
export function lastState(pieces: Piece[]): { start: number; earlier: number } {
  let [start, earlier] = [0, 0];
  let hasText = false;
  pieces.forEach((piece, at) => {
    if (!isReturn(piece)) return void (hasText ||= piece.text !== "");
    if (pieces.slice(at + 1, at + 2).every(isReturn)) return;
    start = at + 1;
    earlier += Number(hasText);
    hasText = false;
  });
  return { start, earlier };
}

/** Offset of the last state with text in a raw line of any length. Linear in the line. */
export function lastStateFrom(raw: string): number {
  for (let end = raw.length; end > 0; ) {
    const from = raw.lastIndexOf("\r", end - 1) + 1;
    if (raw.slice(from, end).replace(ESCAPE, "") !== "") return from;
    end = from - 1;
  }
  return 0;
}

const isReturn = ({ text, isControl }: Piece): boolean => isControl === true && text === "\u240d";

function addText(pieces: Piece[], text: string, style: Style, at: number): void {
  let from = 0;
  for (const match of text.matchAll(CONTROL)) {
    if (match.index > from) pieces.push({ text: text.slice(from, match.index), style, at: at + from });
    pieces.push({ text: signOf(match[0]), style, at: at + match.index, isControl: true });
    from = match.index + 1;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), style, at: at + from });
}

function signOf(char: string): string {
  const code = char.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

function restyled(style: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map((each) => Number(each || 0));
  let next = { ...style };
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 38 || code === 48) {
      const [colour, length] = extended(codes, at + 1);
      if (colour !== undefined) next[code === 38 ? "fg" : "bg"] = colour;
      at += length;
    } else next = applied(next, code);
  }
  return next;
}

const ON: Record<number, keyof Style> = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
const OFF: Record<number, (keyof Style)[]> = {
  22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"], 39: ["fg"], 49: ["bg"],
};

function applied(style: Style, code: number): Style {
  if (code === 0) return {};
  const on = ON[code];
  if (on) return { ...style, [on]: true };
  if (code >= 30 && code <= 37) return { ...style, fg: code - 30 };
  if (code >= 40 && code <= 47) return { ...style, bg: code - 40 };
  if (code >= 90 && code <= 97) return { ...style, fg: code - 82 };
  if (code >= 100 && code <= 107) return { ...style, bg: code - 92 };
  const result = { ...style };
  for (const name of OFF[code] ?? []) delete result[name];
  return result;
}

/** A colour of the 256-colour palette (`5;n`) or an RGB colour (`2;r;g;b`), and the number of its codes. */
function extended(codes: number[], at: number): [number | string | undefined, number] {
  if (codes[at] === 5) return [paletteColour(codes[at + 1] ?? 0), 2];
  if (codes[at] === 2) return [hex(codes.slice(at + 1, at + 4)), 4];
  return [undefined, codes.length];
}

function paletteColour(index: number): number | string | undefined {
  if (index < 16) return index;
  if (index > 255) return undefined;
  if (index >= 232) return hex(Array(3).fill(8 + (index - 232) * 10));
  const step = (value: number) => (value ? 55 + value * 40 : 0);
  const cube = index - 16;
  return hex([step(Math.floor(cube / 36)), step(Math.floor(cube / 6) % 6), step(cube % 6)]);
}

function hex(parts: number[]): string | undefined {
  if (parts.length < 3 || parts.some((part) => !(part >= 0 && part <= 255))) return undefined;
  return "#" + parts.map((part) => part.toString(16).padStart(2, "0")).join("");
}
