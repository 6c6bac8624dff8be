/** The page of pipelines: a filter by a part of the name, and the newest run of each pipeline. */

import { api, type Pipeline } from "../api";
import type { App, View } from "../app";
import { el, name } from "../dom";
import { count, size } from "../format";
import { loadUntil } from "../paging";
import { addressOf, type Place } from "../place";
import { badge, cell, number, when } from "../ui/facts";
import { PLAIN } from "../ui/fields";
import { ListView } from "../ui/listing";
import { listTabs } from "../ui/tabs";

const TYPING_MS = 200;
const SCREENFUL = 20;
/** Requests for one screenful; then a button continues. Each request examines several thousand names. */
const MAX_REQUESTS = 5;

export function pipelinesPage(app: App, place: Place): View {
  let typing = 0;
  const input = el("input", { type: "search", id: "prefix", value: place.contains ?? "", placeholder: "orders", ...PLAIN });
  const list = new ListView<Pipeline>({
    head: ["Pipeline", "Last run", "Lines", "Size", "Last activity"],
    label: "Pipelines",
    empty: "No pipelines match, or you lack permission to read them.",
    row: rowOf,
    fetch: (start, signal) => loadUntil(async (cursor) => {
      const { pipelines, cursor: next } = await api.pipelines(input.value, cursor, signal);
      return { items: pipelines, cursor: next };
    }, start, SCREENFUL, MAX_REQUESTS),
    failed: (where, error, retry) => app.fail(where, error, retry),
  });
  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = window.setTimeout(() => {
      app.setPlace({ isList: true, ...(input.value && { contains: input.value }) });
      void list.load();
    }, TYPING_MS);
  });
  void list.load();
  const filter = el("form", { role: "search", class: "find", onsubmit: (event: Event) => event.preventDefault() },
    el("label", { for: "prefix" }, "Name contains"), input);
  const element = el("div", { class: "page" }, listTabs("pipelines"), el("h1", {}, "Pipelines"), filter, list.element);
  return {
    element,
    leave: () => list.leave(),
    key: (event) => {
      if (event.key !== "/") return false;
      input.focus();
      return true;
    },
  };
}

function rowOf({ fqn, last }: Pipeline): HTMLElement[] {
  const link = el("a", { href: addressOf({ fqn }), "data-go": true }, name(fqn));
  if (!last) return [cell(link), cell("none"), number(""), number(""), number("")];
  const run = el("a", { href: addressOf({ fqn, runId: last.runId }), "data-go": true }, name(last.runId));
  return [cell(link), cell(badge(last), " ", run), number(count(last.lines)), number(size(last.bytes)), number(when(last.lastAppendMs))];
}
