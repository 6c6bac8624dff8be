/** Attempts of a run: each is a run of its own, grouped by the id of the first attempt. */

interface Attempt { attempt: number; firstRunId: string }

/** Group the attempts of each run, newest first, at the position of the first listed attempt. */
export function byRun<Facts extends Attempt>(runs: Facts[]): Facts[] {
  const groups = new Map<string, Facts[]>();
  for (const facts of runs) groups.set(facts.firstRunId, [...(groups.get(facts.firstRunId) ?? []), facts]);
  return [...groups.values()].flatMap((attempts) => attempts.sort((one, other) => other.attempt - one.attempt));
}
