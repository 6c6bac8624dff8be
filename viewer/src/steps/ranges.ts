/** How the log of the run shows its steps: the header of each range of lines. */

import type { Step } from "../api";
import type { StepRange } from "../log/folds";

const SIGNS = { succeeded: ["✓", "succeeded"], failed: ["✗", "failed"], running: ["●", "is running"] } as const;

/** Sign and state of a step. */
export const signOf = ({ status }: Step): readonly [string, string] => (status ? SIGNS[status] : ["·", "no end was reported"]);

/** Ranges of at least two lines. */
export function rangesOf(steps: Step[]): StepRange[] {
  return steps.flatMap((step) => {
    const [sign, state] = signOf(step);
    return step.lineRanges
      .filter(([first, last]) => last > first)
      .map(([first, last]) => ({ first, last, name: step.name, state, sign, kind: step.status ?? "none" }));
  });
}
