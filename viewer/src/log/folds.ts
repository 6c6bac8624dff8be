/** Folded lines of a log: those of groups, and lines of a step that follow each other. The first line of each stays visible. */

/** Lines of a step that follow each other in the log of the run, with what their header shows. */
export interface StepRange {
  first: number;
  last: number;
  name: string;
  state: string;
  sign: string;
  /** Class of the sign. */
  kind: string;
}
/** The header of a range; `lines`: with the first one. */
export interface StepHeader extends Omit<StepRange, "first" | "last"> { lines: number; isFolded: boolean }
/** Number of lines below the first one of a group; null: not known yet. */
export interface GroupFold { lines: number | null; isFolded: boolean }

export class Folds {
  /** First and last lines that are hidden, ascending and apart. The last ones may be beyond the lines that are known. */
  hidden: readonly [number, number][] = [];
  private readonly groups = new Map<number, number>(); // last line of each folded group, by its first
  private ranges = new Map<number, StepRange>(); // by first line
  private readonly foldedSteps = new Set<number>(); // first lines

  /** Replace the ranges. Folded ones that have grown stay folded, and those that are gone are shown. */
  setSteps(ranges: readonly StepRange[]): void {
    this.ranges = new Map(ranges.map((range) => [range.first, range]));
    for (const first of this.foldedSteps) if (!this.ranges.has(first)) this.foldedSteps.delete(first);
    this.update();
  }

  header(line: number): StepHeader | undefined {
    const range = this.ranges.get(line);
    if (!range) return undefined;
    const { first, last, ...shown } = range;
    return { ...shown, lines: last - first + 1, isFolded: this.foldedSteps.has(line) };
  }

  /** The state of the group that begins at a line. */
  group(line: number): GroupFold {
    const last = this.groups.get(line);
    return { lines: last === undefined ? null : last - line, isFolded: last !== undefined };
  }

  /** Hide the lines after `line` up to `last`. */
  foldGroup(line: number, last: number): void {
    if (last > line) this.groups.set(line, last);
    this.update();
  }

  unfoldGroup(line: number): void {
    this.groups.delete(line);
    this.update();
  }

  toggleStep(line: number): void {
    if (!this.foldedSteps.delete(line)) this.foldedSteps.add(line);
    this.update();
  }

  /** Show a line, whatever hides it. */
  reveal(line: number): void {
    for (const [first, last] of this.groups) if (line > first && line <= last) this.groups.delete(first);
    for (const first of this.foldedSteps) if (line > first && line <= this.lastOf(first)) this.foldedSteps.delete(first);
    this.update();
  }

  private lastOf(first: number): number {
    return this.ranges.get(first)?.last ?? first;
  }

  private update(): void {
    const steps = [...this.foldedSteps].map((first): [number, number] => [first, this.lastOf(first)]);
    const hidden: [number, number][] = [];
    for (const [line, last] of [...this.groups, ...steps].sort(([one], [other]) => one - other)) {
      const before = hidden.at(-1);
      if (before && line + 1 <= before[1] + 1) before[1] = Math.max(before[1], last);
      else hidden.push([line + 1, last]);
    }
    this.hidden = hidden;
  }
}
