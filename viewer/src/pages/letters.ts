/** The page of dead letters: events that a handler of a processing pipeline failed to process. */

import { api, type Letter } from "../api";
import type { App, View } from "../app";
import { el, fill, name } from "../dom";
import { count } from "../format";
import { ERROR_CONTEXT } from "../letters/messages";
import { Reasons } from "../letters/reasons";
import { loadUntil } from "../paging";
import { addressOf, type LettersQuery } from "../place";
import { cell, when } from "../ui/facts";
import { filterForm, findField, textField, timeField, valuesOf } from "../ui/fields";
import { ListView } from "../ui/listing";
import { adminTabs } from "../ui/tabs";

const PAGE_LETTERS = 50;
const SCREENFUL = 20;
/** Requests for one screenful; then a button continues. Each request examines a thousand letters. */
const MAX_REQUESTS = 5;

export function lettersPage(app: App, place: LettersQuery): View {
  let query = place;
  const reasons = new Reasons(() => {
    if (query.find) list.filter(query.find);
  });
  const fields = [textField("pipeline", "Processing pipeline", "audit"), textField("handler", "Handler", "files"), textField("fqn", "Logged by pipeline", "mysql.ingest"), textField("run", "Run", "run-1"), timeField("from", "Last attempt from"), timeField("to", "Last attempt before")];
  for (const field of fields) field.write(query[field.id as keyof LettersQuery] ?? "");
  const hint = el("p", { class: "soft", role: "status" });
  const list = new ListView<Letter>({
    head: ["Last attempt", "Pipeline", "Handler", "Run", "Line", "Reason"],
    label: "Dead letters",
    empty: "There are no dead letters that match, and that you may read: handlers have processed all events. Processing shows whether all pipelines run.",
    row: (letter) => rowOf(letter, reasons, Boolean(query.find)),
    fetch: (start, signal) => loadUntil(async (cursor) => {
      const { run, line: _, find: __, ...names } = query;
      const { letters, cursor: next } = await api.letters({ ...names, runId: run, limit: PAGE_LETTERS, cursor }, signal);
      return { items: letters, cursor: next };
    }, start, SCREENFUL, MAX_REQUESTS),
    failed: (where, error, retry) => app.fail(where, error, retry, ERROR_CONTEXT),
  });
  const find = findField(query.find ?? "", (text) => {
    query = { ...query, find: text };
    app.setPlace({ letters: query });
    list.filter(text);
    reasons.loadAll();
  });
  const load = (): void => {
    const needsName = Boolean(query.run) && !query.fqn;
    fill(hint, needsName && "To limit the list to a run, enter its pipeline too.");
    reasons.clear();
    if (!needsName) void list.load();
  };
  const submit = (): void => {
    query = { ...valuesOf(fields), find: query.find };
    app.setPlace({ letters: query });
    load();
  };
  list.filter(query.find ?? "");
  load();
  const again = el("button", { class: "quiet", onclick: load }, "Refresh");
  const element = el("div", { class: "page letters" }, adminTabs("letters"), el("div", { class: "title" }, el("h1", {}, "Dead letters"), again),
    filterForm("Which dead letters", fields, submit), hint, find.element, list.element);
  return {
    element,
    leave: () => (list.leave(), reasons.leave()),
    key: (event) => {
      const step = { j: 1, k: -1 }[event.key];
      if (step) return list.move(step);
      if (event.key !== "/") return false;
      find.input.focus();
      return true;
    },
  };
}

function rowOf(letter: Letter, reasons: Reasons, isSearched: boolean): HTMLElement[] {
  const { pipeline, handler, fqn, runId, line } = letter;
  const link = el("a", { href: addressOf({ letters: { pipeline, handler, fqn, run: runId, line: String(line) } }), "data-go": true, class: "open" }, when(Date.parse(letter.storedAt)));
  const reason = cell();
  reasons.watch(reason, letter, isSearched);
  return [cell(link), cell(name(pipeline)), cell(name(handler)), cell(name(`${fqn}/${runId}`)), cell(count(line + 1)), reason];
}
