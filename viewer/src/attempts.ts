/** Attempts of a run: each is a run of its own, grouped by the id of the first attempt. */

interface Attempt { attempt: number; firstRunId: string }

/** Group the attempts of each run, newest first, at the position of the first listed attempt. `groupOf`: what the attempts of a run share. */
export function groupAttempts<Facts extends Attempt>(runs: Facts[], groupOf: (facts: Facts) => string = (facts) => facts.firstRunId): Facts[][] {
  const groups = new Map<string, Facts[]>();
  for (const facts of runs) {
    const group = groups.get(groupOf(facts));
    if (group) group.push(facts);
    else groups.set(groupOf(facts), [facts]);
  }
  return [...groups.values()].map((attempts) => attempts.sort((one, other) => other.attempt - one.attempt));
}

/** The attempts of each run of a pipeline, one after the other. */
export const byRun = <Facts extends Attempt>(runs: Facts[]): Facts[] => groupAttempts(runs).flat();
