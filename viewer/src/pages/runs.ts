/** The page of a pipeline's runs, newest first, with the attempts of each run together, and why runs failed. */

import { api, type RunFacts } from "../api";
import type { App, View } from "../app";
import { byRun } from "../attempts";
import { el, name } from "../dom";
import { applicationOf } from "../files/application";
import { count, duration, size } from "../format";
import { addressOf } from "../place";
import { badge, cell, number, when } from "../ui/facts";
import { ListView } from "../ui/listing";
import { addressOfRun, whyOf } from "../ui/why";

export function runsPage(app: App, fqn: string): View {
  const list = new ListView<RunFacts>({
    head: ["Run", "Attempt", "Status", "Lines", "Size", "Duration", "Started", "Last activity"],
    label: "Runs",
    empty: "This pipeline has no runs, or you lack permission to read them.",
    row: (facts) => [
      cell(el("a", { href: addressOfRun(fqn, facts), "data-go": true }, name(facts.runId))),
      number(facts.attempt > 1 ? String(facts.attempt) : ""), cell(badge(facts)),
      number(count(facts.lines)), number(size(facts.bytes)), number(duration(facts.durationMs)), number(when(facts.startedMs)), number(when(facts.lastAppendMs)),
    ],
    below: (facts) => whyOf(fqn, facts),
    fetch: async (cursor, signal) => {
      const { runs, cursor: next } = await api.runs(fqn, cursor, signal);
      return { items: byRun(runs), cursor: next };
    },
    failed: (where, error, retry) => app.fail(where, error, retry),
  });
  void list.load();
  const again = el("button", { class: "quiet", onclick: () => void list.load() }, "Refresh");
  const application = applicationOf(fqn);
  const links = el("span", {},
    el("a", { href: addressOf({ letters: { fqn } }), "data-go": true, class: "nav-link" }, "Dead letters"),
    application?.namespace && el("a", { href: addressOf({ files: application }), "data-go": true, class: "nav-link" }, "Pipeline files"), again);
  return { element: el("div", { class: "page" }, el("div", { class: "title" }, el("h1", {}, "Runs of ", name(fqn)), links), list.element), leave: () => list.leave() };
}
