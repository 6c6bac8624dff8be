/** The list of the start page: a refresh of it, its groups of attempts, and their order. */

import type { ListedRun } from "../api";
import { groupAttempts } from "../attempts";
import { OUTCOMES, type Order } from "./filter";

export const keyOf = (run: ListedRun): string => JSON.stringify([run.fqn, run.runId]);
export const groupOf = (run: ListedRun): string => JSON.stringify([run.fqn, run.firstRunId]);

export interface Listed { runs: ListedRun[]; isKept: boolean }

/** The list after its newest runs were read again. `isWhole`: nothing follows the fresh ones; `isFull`: the server stopped at the limit, not
 * before. Known runs behind the fresh ones stay (`isKept`); known runs among them that are missing have another outcome now. */
export function refreshed(known: ListedRun[], fresh: ListedRun[], isWhole: boolean, isFull: boolean): Listed {
  if (isWhole) return { runs: fresh, isKept: false };
  const names = new Set(fresh.map(keyOf));
  const last = known.findLastIndex((run) => names.has(keyOf(run)));
  if (last < 0 && isFull) return { runs: fresh, isKept: false };
  const rest = known.slice(last + 1).filter((run) => !names.has(keyOf(run)));
  return { runs: [...fresh, ...rest], isKept: rest.length > 0 };
}

/** Attempts of a run together, the newest first, in the order of the newest ones. */
export function groups(runs: ListedRun[], order: Order | null): ListedRun[][] {
  const grouped = groupAttempts(runs, groupOf);
  if (!order) return grouped;
  const compare = COMPARE[order.column];
  return grouped.sort(([one], [other]) => (order.isDescending ? -1 : 1) * compare(one!, other!));
}

const COMPARE = {
  outcome: (one: ListedRun, other: ListedRun) => OUTCOMES.indexOf(one.outcome) - OUTCOMES.indexOf(other.outcome),
  pipeline: (one: ListedRun, other: ListedRun) => (one.fqn < other.fqn ? -1 : one.fqn > other.fqn ? 1 : 0),
  duration: (one: ListedRun, other: ListedRun) => one.durationMs - other.durationMs,
};
