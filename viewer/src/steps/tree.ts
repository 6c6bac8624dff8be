/** Steps as a tree: each below its parent, in the order of their start; those whose parent is not there stand at the top. */

import type { Step } from "../api";

export interface Node {
  step: Step;
  depth: number;
  parent: Node | null;
  children: Node[];
}

const FOLDED_ABOVE = 100;

/** The roots. Every step is in it once, whatever their parents are. */
export function treeOf(steps: Step[]): Node[] {
  const nodes = new Map(steps.map((step) => [step.step, { step, depth: 0, parent: null, children: [] } as Node]));
  const roots: Node[] = [];
  for (const node of nodes.values()) {
    const parent = node.step.parent === null ? undefined : nodes.get(node.step.parent);
    if (!parent || isWithin(parent, node)) roots.push(node);
    else (node.parent = parent), parent.children.push(node);
  }
  const waiting = [...roots];
  for (let node = waiting.pop(); node; node = waiting.pop()) {
    for (const child of node.children) (child.depth = node.depth + 1), waiting.push(child);
  }
  return roots;
}

/** Whether a node is below another one, or is it. */
function isWithin(node: Node, other: Node): boolean {
  for (let each: Node | null = node; each; each = each.parent) if (each === other) return true;
  return false;
}

/** Those that are shown: without what is below a folded one. */
export function visible(roots: Node[], folded: ReadonlySet<string>): Node[] {
  const shown: Node[] = [];
  const waiting = [...roots].reverse();
  for (let node = waiting.pop(); node; node = waiting.pop()) {
    shown.push(node);
    if (!folded.has(node.step.step)) waiting.push(...[...node.children].reverse());
  }
  return shown;
}

/** What is folded at first: of many steps, those that went well. */
export function foldedAtFirst(roots: Node[]): Set<string> {
  const all = visible(roots, new Set());
  if (all.length <= FOLDED_ABOVE) return new Set();
  const isWell = new Map<Node, boolean>();
  for (const node of [...all].reverse()) isWell.set(node, node.step.status === "succeeded" && node.children.every((child) => isWell.get(child)));
  return new Set(all.filter((node) => node.children.length && isWell.get(node)).map((node) => node.step.step));
}
