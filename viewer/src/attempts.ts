/** Attempts of a run: runs of their own, named by the first. */

interface Attempt { attempt: number; firstRunId: string }

/** Attempts of a run together, the newest first, where the first of them is. */
export function byRun<Facts extends Attempt>(runs: Facts[]): Facts[] {
  const groups = new Map<string, Facts[]>();
  for (const facts of runs) groups.set(facts.firstRunId, [...(groups.get(facts.firstRunId) ?? []), facts]);
  return [...groups.values()].flatMap((attempts) => attempts.sort((one, other) => other.attempt - one.attempt));
}
