/** Renders a line of the log: its number, and its pieces as text nodes. */

import { el, name } from "../dom";
import { count, plural, size } from "../format";
import { allStates, lastState, parseLine, type Piece, type Style } from "./ansi";
import { dataButton } from "./data";
import type { GroupFold, StepHeader } from "./folds";
import type { Line } from "./lines";
import { linksOf } from "./links";
import type { Annotation } from "./annotations";
import type { Mark } from "./outline";
import type { Span } from "./spans";

export interface RowState {
  isSelected: boolean;
  isCurrent: boolean;
  isMatch: boolean;
  /** Lines before it are not shown. */
  isAfterGap?: boolean;
  /** It may explain the run's failure. */
  isCause?: boolean;
  spans: Span[];
  /** Links and colours. */
  annotations?: Annotation[];
  mark?: Mark | undefined;
}

/** Part of a piece with uniform style, search match and annotation. */
export interface Part { text: string; style: Style; isControl: boolean; isHit: boolean; annotation?: Annotation }

export function rowOf(number: number, line: Line | undefined, state: RowState): HTMLElement {
  const text = el("span", { class: "text", dir: "ltr" });
  const severity = state.mark?.severity;
  const row = el("div", { class: "row", "data-line": number, role: "listitem" }, numberOf(number, severity, state.isCause), text, state.mark?.dataLine !== undefined && dataButton(number));
  if (severity) row.classList.add(severity.toLowerCase());
  if (state.isSelected) row.classList.add("selected");
  if (state.isCause) row.classList.add("cause");
  if (state.isAfterGap) row.classList.add("after-gap");
  if (state.isMatch) row.classList.add("match");
  if (state.isCurrent) row.classList.add("current");
  if (!line) row.classList.add("absent");
  else fill(text, line, state);
  return row;
}

function numberOf(number: number, severity: string | null | undefined, isCause = false): HTMLElement {
  const label = `Line ${number + 1}${severity ? `, ${severity}` : ""}${isCause ? ", may explain the failure" : ""}`;
  return el("a", { class: "number", href: `#L${number + 1}`, tabindex: -1, "aria-label": label, title: severity }, String(number + 1));
}

function fill(text: HTMLElement, line: Line, { spans, annotations: ofFullLine = [] }: RowState): void {
  const annotations = ofFullLine.map((each) => ({ ...each, from: each.from - (line.from ?? 0), to: each.to - (line.from ?? 0) }));
  const all = parseLine(line.text);
  const { start, earlier } = lastState(all);
  const isCollapsed = !spans.some(([from]) => from < (all[start]?.at ?? 0)); // a match is visible
  const pieces = isCollapsed ? all.slice(start) : all;
  if (line.step) text.append(stepOf(line.step), " ");
  if (line.fold) text.append(foldOf(line.fold), " ");
  for (const part of partsOf(pieces, spans, [...linksOf(line), ...annotations])) text.append(nodeOf(part));
  if (isCollapsed && earlier && !line.fold) text.append(" ", el("button", { class: "more", "data-more": true, title: "The line was overwritten, as by a progress bar" }, `↺ ${plural(earlier, "earlier state")}`));
  if (line.fullLength) {
    const title = `Truncated: the line has ${count(line.fullLength)} characters`;
    text.append(" ", el("button", { class: "more", "data-more": true, title }, `… show all ${size(line.fullLength)}`));
  }
}

/** Replace a truncated or collapsed line with its full text, until it is scrolled out of view. */
export function showFullLine(number: number, container: HTMLElement | null, raw: string): void {
  const fullLine = el("span", { class: "full-line", tabindex: 0, role: "region", "aria-label": `Full text of line ${count(number + 1)}` }, allStates(raw));
  container?.replaceChildren(fullLine);
  fullLine.focus({ preventScroll: true });
}

/** The header of a step's lines. */
function stepOf({ name: step, state, sign, kind, lines, isFolded }: StepHeader): HTMLElement {
  const title = `${isFolded ? "Show" : "Fold"} the lines of ${step}`;
  return el("button", { class: "more step-header", "data-fold": "step", title, "aria-expanded": String(!isFolded) },
    el("span", { "aria-hidden": true }, isFolded ? "▸ " : "▾ ", el("span", { class: `sign ${kind}` }, sign), " "), name(step), ` ${state} · ${plural(lines, "line")}`);
}

function foldOf({ lines, isFolded }: GroupFold): HTMLElement {
  const title = `${isFolded ? "Show" : "Fold"} ${lines === null ? "these lines" : plural(lines, "line")}`;
  return el("button", { class: "more", "data-fold": "group", title, "aria-expanded": String(!isFolded), "aria-label": title }, isFolded ? `▸ ${count(lines ?? 0)}` : "▾");
}

/** Split pieces at the bounds of search matches and annotations, both with offsets in the raw line. One pass in the line's order. */
export function partsOf(pieces: Piece[], spans: Span[], annotations: Annotation[]): Part[] {
  const cuts = [...new Set([...spans.flat(), ...annotations.flatMap(({ from, to }) => [from, to])])].sort((a, b) => a - b);
  const hits = [...spans].sort((a, b) => a[0] - b[0]);
  const parts: Part[] = [];
  let [cut, hit] = [0, 0];
  for (const piece of pieces) {
    const own: number[] = [];
    for (; cut < cuts.length && (cuts[cut] ?? 0) < piece.at + piece.text.length; cut += 1) {
      if (!piece.isControl) own.push((cuts[cut] ?? 0) - piece.at);
      else if ((cuts[cut] ?? 0) > piece.at) break; // a sign may be longer than the character that it replaces
    }
    const all = [0, ...own, piece.text.length];
    const bounds = [...new Set(all.filter((at) => at >= 0 && at <= piece.text.length))].sort((a, b) => a - b);
    bounds.slice(1).forEach((to, index) => {
      const from = bounds[index] ?? 0;
      const raw = piece.at + (piece.isControl ? 0 : from);
      while (hit < hits.length && (hits[hit]?.[1] ?? 0) <= raw) hit += 1;
      const annotation = annotations.findLast((each) => raw >= each.from && raw < each.to);
      parts.push({
        ...(annotation && { annotation }),
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
  if (!hasStyle && !part.isHit && !part.isControl && !part.annotation) return document.createTextNode(part.text);
  const node = el(part.isHit ? "mark" : "span", {}, part.text);
  if (part.isControl) node.classList.add("control");
  applyStyle(node, part.annotation?.colour === undefined ? part.style : { ...part.style, fg: part.annotation.colour });
  if (!part.annotation?.href) return node;
  return el("a", { class: "link", href: part.annotation.href, target: "_blank", rel: "noopener noreferrer nofollow" }, node);
}

const FLAGS = ["bold", "dim", "italic", "underline", "strike"] as const;

function applyStyle(node: HTMLElement, style: Style): void {
  for (const flag of FLAGS) if (style[flag]) node.classList.add(flag);
  const [fg, bg] = style.inverse ? [style.bg ?? "page", style.fg ?? "ink"] : [style.fg, style.bg];
  colour(node, "fg", fg);
  colour(node, "bg", bg);
}

/** Palette colours are classes; other colours are a property whose lightness the style sheet adjusts for contrast. */
function colour(node: HTMLElement, kind: "fg" | "bg", value: number | string | undefined): void {
  if (value === undefined) return;
  if (typeof value === "string" && value.startsWith("#")) {
    node.classList.add(`${kind}-any`);
    node.style.setProperty(`--${kind}`, value);
  } else node.classList.add(`${kind}-${value}`);
}
