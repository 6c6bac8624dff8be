/** What is known of a run, as cells and badges. */

import type { RunFacts } from "../api";
import { el } from "../dom";
import { ago, time } from "../format";

/** A run's state: a class, its word in docs/glossary.md, and why. */
export function stateOf(facts: RunFacts): [string, string, string] {
  if (facts.status === "open") return ["live", "Running", "More lines may come"];
  if (facts.end === "abandoned") return ["abandoned", "Abandoned", "No client closed it: it was sealed after it had been idle"];
  return facts.complete ? ["done", "Finalized", "It was closed, and its whole log is one file"] : ["done", "Closed", "It was closed: no more lines can come"];
}

export function badge(facts: RunFacts): HTMLElement {
  const [kind, word, why] = stateOf(facts);
  return el("span", { class: `badge ${kind}`, title: why }, word);
}

export function when(ms: number): HTMLElement {
  return el("time", { datetime: new Date(ms).toISOString(), title: time(ms) }, ago(ms));
}

export const cell = (...children: (Node | string)[]): HTMLElement => el("td", {}, ...children);
export const number = (...children: (Node | string)[]): HTMLElement => el("td", { class: "figure" }, ...children);
