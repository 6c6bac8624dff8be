/** The choices of the start page: outcomes, period, text and order, as the URL has them. */

import type { RunFacts } from "../api";

export type Outcome = RunFacts["outcome"];

/** All outcomes, in the order of their urgency. */
export const OUTCOMES: readonly Outcome[] = ["failed", "lost", "silent", "running", "cancelled", "unknown", "succeeded"];
/** Outcomes of runs that may need somebody's attention. */
export const ATTENTION: readonly Outcome[] = ["failed", "lost", "silent"];

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
export const PERIODS = {
  "1h": { ms: HOUR_MS, label: "hour" },
  "24h": { ms: DAY_MS, label: "24 hours" },
  "7d": { ms: 7 * DAY_MS, label: "7 days" },
} as const;
export type Period = keyof typeof PERIODS;
const DEFAULT_PERIOD: Period = "24h";

export const COLUMNS = ["outcome", "pipeline", "duration"] as const;
export type Column = (typeof COLUMNS)[number];
/** `null`: the runs that were active last come first, as the server sends them. */
export interface Order { column: Column; isDescending: boolean }

export interface Filter {
  outcomes: readonly Outcome[];
  period: Period;
  /** Part of the pipeline's name or of the run id. */
  text: string;
  order: Order | null;
}

export const DEFAULT: Filter = { outcomes: ATTENTION, period: DEFAULT_PERIOD, text: "", order: null };

/** The filter of a URL. Values that this page does not know are ignored. */
export function parseFilter(query: URLSearchParams): Filter {
  const [outcome, period, sort] = [query.get("outcome") ?? "", query.get("within") ?? "", query.get("sort") ?? ""];
  const chosen = outcome === "all" ? OUTCOMES : OUTCOMES.filter((each) => outcome.split(",").includes(each));
  const column = COLUMNS.find((each) => each === sort.replace(/^-/, ""));
  return {
    outcomes: chosen.length > 0 ? chosen : ATTENTION,
    period: Object.hasOwn(PERIODS, period) ? (period as Period) : DEFAULT_PERIOD,
    text: query.get("find") ?? "",
    order: column ? { column, isDescending: sort.startsWith("-") } : null,
  };
}

/** The part of the URL for a filter; what is the default is left out. */
export function formatFilter({ outcomes, period, text, order }: Filter): URLSearchParams {
  const query = new URLSearchParams();
  if (isAll(outcomes)) query.set("outcome", "all");
  else if (!isAttention(outcomes)) query.set("outcome", outcomes.join(","));
  if (period !== DEFAULT_PERIOD) query.set("within", period);
  if (text) query.set("find", text);
  if (order) query.set("sort", `${order.isDescending ? "-" : ""}${order.column}`);
  return query;
}

const isSame = (one: readonly Outcome[], other: readonly Outcome[]): boolean => one.length === other.length && one.every((each) => other.includes(each));
export const isAll = (outcomes: readonly Outcome[]): boolean => isSame(outcomes, OUTCOMES);
const isAttention = (outcomes: readonly Outcome[]): boolean => isSame(outcomes, ATTENTION);
const isPreset = (outcomes: readonly Outcome[]): boolean => isAll(outcomes) || isAttention(outcomes);

/** The outcomes after a click on one of them: it alone after a preset, otherwise it is added or removed. None left: the default. */
export function toggled(outcomes: readonly Outcome[], outcome: Outcome): readonly Outcome[] {
  if (isPreset(outcomes)) return [outcome];
  const chosen = OUTCOMES.filter((each) => outcomes.includes(each) !== (each === outcome));
  return chosen.length > 0 ? chosen : ATTENTION;
}

/** A button that chooses outcomes. `isPressed` and `next`: of the outcomes that are chosen now. */
interface Chip { label: string; isPressed(outcomes: readonly Outcome[]): boolean; next(outcomes: readonly Outcome[]): readonly Outcome[] }

/** The presets, and each outcome alone. */
export const CHIPS: Chip[] = [
  { label: "Needs attention", isPressed: isAttention, next: () => ATTENTION },
  { label: "All", isPressed: isAll, next: () => OUTCOMES },
  ...OUTCOMES.map((each) => ({
    label: each[0]!.toUpperCase() + each.slice(1),
    isPressed: (outcomes: readonly Outcome[]) => !isPreset(outcomes) && outcomes.includes(each),
    next: (outcomes: readonly Outcome[]) => toggled(outcomes, each),
  })),
];

/** The order after a click on a column's heading: long runs first, otherwise ascending; then reversed; then by time again. */
export function nextOrder(order: Order | null, column: Column): Order | null {
  const first = column === "duration";
  if (order?.column !== column) return { column, isDescending: first };
  return order.isDescending === first ? { column, isDescending: !first } : null;
}

/** What an empty list says. */
export function emptyText({ outcomes, period, text }: Filter): string {
  const names = [outcomes.slice(0, -1).join(", "), outcomes.at(-1)].filter(Boolean).join(" or ");
  const kind = isAll(outcomes) ? "No runs" : `No ${names} runs`;
  return `${kind} in the last ${PERIODS[period].label}${text ? ` whose pipeline or run id contains “${text}”` : ""}.`;
}
