/** Steps as a tree, siblings in order of start. A step whose parent is missing is a root. */

import type { Step } from "../api";

export interface Node {
  step: Step;
  depth: number;
  parent: Node | null;
  children: Node[];
}

const FOLDED_ABOVE = 100;

/** The roots of the tree. It contains every step once, even if parents form a cycle. */
export function treeOf(steps: Step[]): Node[] {
  const nodes = new Map(steps.map((step) => [step.step, { step, depth: 0, parent: null, children: [] } as Node]));
  const roots: Node[] = [];
  for (const node of nodes.values()) {
    const parent = node.step.parent === null ? undefined : nodes.get(node.step.parent);
    if (!parent || isWithin(parent, node)) roots.push(node);
    else (node.parent = parent), parent.children.push(node);
  }
  const stack = [...roots];
  for (let node = stack.pop(); node; node = stack.pop()) {
    for (const child of node.children) (child.depth = node.depth + 1), stack.push(child);
  }
  return roots;
}

/** Whether a node is another node or one of its descendants. */
function isWithin(node: Node, other: Node): boolean {
  for (let each: Node | null = node; each; each = each.parent) if (each === other) return true;
  return false;
}

/** The visible nodes in order: all except descendants of folded ones. */
export function visible(roots: Node[], folded: ReadonlySet<string>): Node[] {
  const nodes: Node[] = [];
  const stack = [...roots].reverse();
  for (let node = stack.pop(); node; node = stack.pop()) {
    nodes.push(node);
    if (!folded.has(node.step.step)) stack.push(...[...node.children].reverse());
  }
  return nodes;
}

/** Steps that are folded initially: the successful ones, if there are many steps. */
export function initiallyFolded(roots: Node[]): Set<string> {
  const all = visible(roots, new Set());
  if (all.length <= FOLDED_ABOVE) return new Set();
  const isSuccessful = new Map<Node, boolean>();
  for (const node of [...all].reverse()) isSuccessful.set(node, node.step.status === "succeeded" && node.children.every((child) => isSuccessful.get(child)));
  return new Set(all.filter((node) => node.children.length && isSuccessful.get(node)).map((node) => node.step.step));
}
