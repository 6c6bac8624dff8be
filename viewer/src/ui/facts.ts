/** What is known of a run, as cells and badges. */

import type { RunFacts } from "../api";
import { el } from "../dom";
import { ago, time } from "../format";

/** A run's state in a word, and why. */
export function stateOf(facts: RunFacts): [string, string, string] {
  if (facts.status === "open") return ["live", "Live", "It is open: more lines may come"];
  if (facts.end === "abandoned") return ["abandoned", "Abandoned", "Nobody closed it: it was ended after it had been idle"];
  return ["done", "Finished", facts.complete ? "It was closed, and its whole log is one file" : "It was closed"];
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
