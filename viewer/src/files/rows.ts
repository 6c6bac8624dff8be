/** Rows of the page of pipeline files: files, and the events in them. */

import type { FileEvent, PipelineFile } from "../api";
import { el, name } from "../dom";
import { count, size, time } from "../format";
import { shown } from "../log/ansi";
import { addressOf, type FilesQuery } from "../place";
import { cell, number } from "../ui/facts";

const MAX_CHARS = 4_000;
const SEVERE = ["ERROR", "CRITICAL", "FATAL"];

export const FILES_HEAD = ["File", "Format", "Size", "Events", "First event", "Last event", "State", "Actions"];
export const EVENTS_HEAD = ["Time", "Level", "Logger", "Message"];

export const stateOf = ({ complete }: PipelineFile): HTMLElement =>
  complete ? el("span", { class: "badge done" }, "Complete") : el("span", { class: "badge live", title: "Events may be added" }, "Open");

const moment = (ms: number): HTMLElement => el("time", { datetime: new Date(ms).toISOString() }, time(ms));

export function fileRow(file: PipelineFile, query: FilesQuery, download: (key: string) => void): HTMLElement[] {
  const link = el("a", { href: addressOf({ files: { ...query, key: file.key } }), "data-go": true, class: "open" }, name(file.key));
  const button = el("button", { onclick: () => download(file.key), "aria-label": `Download ${file.key}` }, "Download");
  return [cell(link), cell(name(file.format)), number(size(file.bytes)), number(count(file.events)), number(moment(file.firstTime)), number(moment(file.lastTime)), number(stateOf(file)), number(button)];
}

/** The time leads to the line in the run's log if the file's format has it. */
export function eventRow({ time: ms, level, logger, message, fqn, runId, line, truncated }: FileEvent): HTMLElement[] {
  const text = `${time(ms)}.${String(Math.abs(ms) % 1000).padStart(3, "0")}`;
  const place = fqn && runId && line >= 0 ? { fqn, runId, lines: { from: line, to: line } } : null;
  const at = place ? el("a", { href: addressOf(place), "data-go": true, title: `Line ${count(line + 1)} of ${fqn}/${runId}` }, text) : text;
  const severity = el("td", SEVERE.includes(level.toUpperCase()) ? { class: "wrong" } : {}, name(level));
  return [el("td", { class: "at" }, at), severity, cell(name(logger)), messageCell(message, truncated === true)];
}

/** A long message is cut, with a button for all of it. */
function messageCell(message: string, isTruncated: boolean): HTMLElement {
  const text = el("div", { class: "message-text", dir: "auto" }, shown(message.slice(0, MAX_CHARS)));
  const all = el("button", { class: "more" }, `Show all ${count(message.length)} characters`);
  all.addEventListener("click", () => (text.replaceChildren(shown(message)), all.remove()));
  const note = isTruncated && el("span", { class: "soft" }, "The event is too large for a response and is cut: download the file for all of it.");
  return el("td", { class: "event-message" }, text, message.length > MAX_CHARS && all, note);
}
