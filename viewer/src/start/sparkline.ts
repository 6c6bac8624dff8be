/** The last runs of a pipeline as small bars: height by duration, color by outcome. */

import type { RunResult } from "../api";
import { svg } from "../dom";
import { duration } from "../format";
import { OUTCOMES, type Outcome } from "./filter";

const RUNS = 20;
const STEP = 6;
const HEIGHT = 20;
const LEAST = 3;
/** A failure has a pale bar of full height behind its own, so that a short one is seen too, whatever colors one sees. */
const FAILURES: readonly Outcome[] = ["failed", "lost"];

/** `results`: newest first. */
export function sparkline(results: RunResult[]): SVGElement {
  const longest = Math.max(1, ...results.map((each) => each.durationMs));
  const bars = results.slice(0, RUNS).flatMap(({ outcome, durationMs }, at) => {
    const x = (RUNS - 1 - at) * STEP;
    const bar = rect(outcome, x, LEAST + ((HEIGHT - LEAST) * durationMs) / longest);
    return FAILURES.includes(outcome) ? [rect("failure", x, HEIGHT), bar] : [bar];
  });
  const label = describe(results);
  return svg("svg", { class: "sparkline", role: "img", "aria-label": label, viewBox: `0 0 ${RUNS * STEP - 2} ${HEIGHT}`, width: RUNS * STEP - 2, height: HEIGHT },
    svg("title", {}, label), ...bars);
}

function rect(kind: string, x: number, height: number): SVGElement {
  return svg("rect", { class: kind, x, y: (HEIGHT - height).toFixed(1), width: STEP - 2, height: height.toFixed(1) });
}

/** "Last 3 runs: 1 failed, 2 succeeded, 4 s to 2 min 3 s". */
export function describe(results: RunResult[]): string {
  const counts = OUTCOMES.map((outcome) => [results.filter((each) => each.outcome === outcome).length, outcome] as const);
  const lengths = results.map((each) => each.durationMs).sort((one, other) => one - other);
  const range = [...new Set([lengths[0] ?? 0, lengths.at(-1) ?? 0].map(duration))].join(" to ");
  const words = counts.filter(([count]) => count > 0).map(([count, outcome]) => `${count} ${outcome}`);
  return `Last ${results.length === 1 ? "run" : `${results.length} runs`}: ${words.join(", ")}, ${range}`;
}
