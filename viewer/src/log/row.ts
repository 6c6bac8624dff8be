/** A line of the log as an element: its number, and its pieces as text nodes. */

import { el } from "../dom";
import { count, size } from "../format";
import { parseLine, type Piece, type Style } from "./ansi";
import { dataButton } from "./data";
import type { Line } from "./lines";
import type { Note } from "./notes";
import type { Mark } from "./outline";
import type { Span } from "./spans";

export interface Look {
  isSelected: boolean;
  isCurrent: boolean;
  isMatch: boolean;
  spans: Span[];
  /** Links and colours beside the text. */
  notes?: Note[];
  mark?: Mark | undefined;
}

/** A cut at the bounds of other things: part of a piece that is of one look. */
export interface Part { text: string; style: Style; isControl: boolean; isHit: boolean; note?: Note }

export function rowOf(place: number, line: Line | undefined, look: Look): HTMLElement {
  const number = line?.number ?? place;
  const text = el("span", { class: "text", dir: "ltr" });
  const severity = look.mark?.severity;
  const row = el("div", { class: "row", "data-line": number, role: "listitem" }, numberOf(number, severity), text, look.mark?.dataLine !== undefined && dataButton(number));
  if (severity) row.classList.add(severity.toLowerCase());
  if (look.isSelected) row.classList.add("selected");
  if (look.isMatch) row.classList.add("match");
  if (look.isCurrent) row.classList.add("current");
  if (!line) row.classList.add("absent");
  else fill(text, line, look);
  return row;
}

function numberOf(number: number, severity: string | null | undefined): HTMLElement {
  const label = `Line ${count(number + 1)}${severity ? `, ${severity}` : ""}`;
  return el("a", { class: "number", href: `#L${number + 1}`, tabindex: -1, "aria-label": label, title: severity }, String(number + 1));
}

function fill(text: HTMLElement, line: Line, { spans, notes = [] }: Look): void {
  const pieces = parseLine(line.text);
  if (line.fold) text.append(foldOf(line.fold), " ");
  for (const part of partsOf(pieces, spans, notes)) text.append(nodeOf(part));
  if (line.cut) {
    const title = `Only the beginning is shown: the line has ${count(line.cut)} characters`;
    text.append(" ", el("button", { class: "more", "data-more": true, title }, `… show all ${size(line.cut)}`));
  }
}

function foldOf({ lines, isFolded }: { lines: number; isFolded: boolean }): HTMLElement {
  const title = `${isFolded ? "Show" : "Fold"} ${count(lines)} more`;
  return el("button", { class: "more", "data-fold": true, title, "aria-expanded": String(!isFolded), "aria-label": title }, isFolded ? `▸ ${count(lines)}` : "▾");
}

/** `spans` and `notes` count in the raw line. One pass over pieces, cuts and spans, all in the line's order. */
export function partsOf(pieces: Piece[], spans: Span[], notes: Note[]): Part[] {
  const cuts = [...new Set([...spans.flat(), ...notes.flatMap((note) => [note.from, note.to])])].sort((a, b) => a - b);
  const hits = [...spans].sort((a, b) => a[0] - b[0]);
  const parts: Part[] = [];
  let [cut, hit] = [0, 0];
  for (const piece of pieces) {
    const own: number[] = [];
    for (; cut < cuts.length && (cuts[cut] ?? 0) < piece.at + piece.text.length; cut += 1) {
      if (!piece.isControl) own.push((cuts[cut] ?? 0) - piece.at);
      else if ((cuts[cut] ?? 0) > piece.at) break; // a sign may be longer than the character it stands for
    }
    const all = [0, ...own, piece.text.length];
    const bounds = [...new Set(all.filter((at) => at >= 0 && at <= piece.text.length))].sort((a, b) => a - b);
    bounds.slice(1).forEach((to, index) => {
      const from = bounds[index] ?? 0;
      const raw = piece.at + (piece.isControl ? 0 : from);
      while (hit < hits.length && (hits[hit]?.[1] ?? 0) <= raw) hit += 1;
      const note = notes.findLast((each) => raw >= each.from && raw < each.to);
      parts.push({
        ...(note && { note }),
        text: piece.text.slice(from, to),
        style: piece.style,
        isControl: Boolean(piece.isControl),
        isHit: (hits[hit]?.[0] ?? Infinity) <= raw,
      });
    });
  }
  return parts;
}

function nodeOf(part: Part): Node {
  const hasStyle = Object.keys(part.style).length > 0;
  if (!hasStyle && !part.isHit && !part.isControl && !part.note) return document.createTextNode(part.text);
  const node = el(part.isHit ? "mark" : "span", {}, part.text);
  if (part.isControl) node.classList.add("control");
  dress(node, part.note?.colour === undefined ? part.style : { ...part.style, fg: part.note.colour });
  if (!part.note?.href) return node;
  return el("a", { class: "link", href: part.note.href, target: "_blank", rel: "noopener noreferrer nofollow" }, node);
}

const FLAGS = ["bold", "dim", "italic", "underline", "strike"] as const;

function dress(node: HTMLElement, style: Style): void {
  for (const flag of FLAGS) if (style[flag]) node.classList.add(flag);
  const [fg, bg] = style.inverse ? [style.bg ?? "page", style.fg ?? "ink"] : [style.fg, style.bg];
  colour(node, "fg", fg);
  colour(node, "bg", bg);
}

/** Colours of the palette are classes, others a property that the style sheet brings to a lightness that can be read. */
function colour(node: HTMLElement, kind: "fg" | "bg", value: number | string | undefined): void {
  if (value === undefined) return;
  if (typeof value === "string" && value.startsWith("#")) {
    node.classList.add(`${kind}-any`);
    node.style.setProperty(`--${kind}`, value);
  } else node.classList.add(`${kind}-${value}`);
}
