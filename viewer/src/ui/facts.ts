/** Facts, of a run as badges and table cells. */

import type { RunFacts } from "../api";
import { el } from "../dom";
import { ago, time } from "../format";

/** The short reason of a failed or cancelled run. */
export function reasonOf(facts: RunFacts): string {
  const code = facts.exitCode ? `exit status ${facts.exitCode}` : "";
  return [facts.signal ? `killed by ${facts.signal}` : code, facts.exception, facts.failedStep && `in step ${facts.failedStep}`].filter(Boolean).join(", ");
}

/** Whether its log may have lines that explain a failure. */
export const hasFailed = (facts: RunFacts): boolean => facts.status !== "open" && (facts.outcome === "failed" || facts.outcome === "lost");

/** A run's outcome if known, otherwise its state: CSS class, label as in docs/glossary.md, and tooltip. */
export function stateOf(facts: RunFacts): [string, string, string] {
  const reason = reasonOf(facts);
  if (facts.outcome === "failed") return ["bad", "Failed", reason || "Its client or its log reports a failure"];
  if (facts.outcome === "cancelled") return ["abandoned", "Cancelled", reason || "Its client reports that it was cancelled"];
  if (facts.outcome === "succeeded") return ["done", "Succeeded", "Its client or its log reports success"];
  if (facts.silentSinceMs) return ["abandoned", `Silent since ${time(facts.silentSinceMs)}`, "A line or a heartbeat is overdue"];
  if (facts.status === "open") return ["live", "Running", "It accepts lines"];
  if (facts.outcome === "lost") return ["abandoned", "Lost", "No client closed it; the sweep ended it after a time without a sign of life"];
  if (facts.end === "abandoned") return ["abandoned", "Abandoned", "No client closed it; the sweep ended it after a time without a sign of life"];
  return facts.complete ? ["done", "Finalized", "It is closed, and logs.txt contains the whole log"] : ["done", "Closed", "It is closed: no line can follow"];
}

export function badge(facts: RunFacts): HTMLElement {
  const [kind, label, reason] = stateOf(facts);
  return el("span", { class: `badge ${kind}`, title: reason }, label);
}

export function when(ms: number): HTMLElement {
  return el("time", { datetime: new Date(ms).toISOString(), title: time(ms) }, ago(ms));
}

/** An entry of a list of facts (`dl`). */
export const fact = (title: string, value: Node | string): HTMLElement => el("div", {}, el("dt", {}, title), el("dd", {}, value));

export const cell = (...children: (Node | string)[]): HTMLElement => el("td", {}, ...children);
export const number = (...children: (Node | string)[]): HTMLElement => el("td", { class: "figure" }, ...children);
