/** Why a run failed, in a list of runs. */

import type { RunFacts } from "../api";
import { el, name } from "../dom";
import { addressOf } from "../place";
import { reasonOf } from "./facts";

/** The page of a run, at the line that explains its failure if the archive knows one. */
export function addressOfRun(fqn: string, run: RunFacts): string {
  const line = run.explanation?.line;
  return addressOf({ fqn, runId: run.runId, ...(line !== undefined && { lines: { from: line, to: line } }) });
}

/** The text of the line, which links to it, otherwise the reason that the run's client reported; null: neither is known. */
export function whyOf(fqn: string, run: RunFacts): HTMLElement | null {
  if (!run.explanation) return reasonOf(run) ? el("span", { title: reasonOf(run) }, name(reasonOf(run))) : null;
  const { text } = run.explanation;
  return el("a", { href: addressOfRun(fqn, run), "data-go": true, title: text }, name(text));
}
