/** What is known of a run, as cells and badges. */

import type { RunFacts } from "../api";
import { el } from "../dom";
import { ago, time } from "../format";

/** Why a run failed or was cancelled, in a few words. */
export function reasonOf(facts: RunFacts): string {
  const code = facts.exitCode ? `exit status ${facts.exitCode}` : "";
  return [facts.signal ? `killed by ${facts.signal}` : code, facts.exception, facts.failedStep && `in step ${facts.failedStep}`].filter(Boolean).join(", ");
}

/** A run's outcome where its client reports it, else its state: a class, its word in docs/glossary.md, and why. */
export function stateOf(facts: RunFacts): [string, string, string] {
  const reason = reasonOf(facts);
  if (facts.outcome === "failed") return ["bad", "Failed", reason || "Its client reports that it failed"];
  if (facts.outcome === "cancelled") return ["abandoned", "Cancelled", reason || "It was ended from outside"];
  if (facts.outcome === "succeeded") return ["done", "Succeeded", "Its client reports that it succeeded"];
  if (facts.silentSinceMs) return ["abandoned", `Silent since ${time(facts.silentSinceMs)}`, "It is overdue for a line or a heartbeat"];
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
