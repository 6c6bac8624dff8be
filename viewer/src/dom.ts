/** Creates elements. Text becomes text nodes only, so that it cannot become markup; no other code adds content to the page. */

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

/** Create an element. An attribute `on…` with a function adds a listener; true sets an empty attribute; false, null and undefined set none. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag, attributes: Attributes = {}, ...children: (Child | Child[])[]
): HTMLElementTagNameMap[Tag] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.flat().filter((child): child is Node | string => Boolean(child)));
  return node;
}

/** Create an SVG element. */
export function svg(tag: string, attributes: Record<string, string | number>, ...children: (Node | string)[]): SVGElement {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

/** User-supplied text, isolated in <bdi> so that its direction does not affect its surroundings. */
export const name = (text: string): HTMLElement => el("bdi", { class: "name" }, text);

/** Replace an element's children. If they are equal, change nothing, to keep selections and tooltips. */
export function fill(node: HTMLElement, ...children: (Child | Child[])[]): void {
  const copy = node.cloneNode(false) as HTMLElement;
  copy.append(...children.flat().filter((child): child is Node | string => Boolean(child)));
  if (!copy.isEqualNode(node)) node.replaceChildren(...copy.childNodes);
}

/** Give the parent these children in this order. Children that are already in place are not moved, so that they keep the focus. */
export function arrange(parent: Element, children: Element[]): void {
  const remaining = new Set(children);
  for (const child of [...parent.children]) if (!remaining.has(child)) child.remove();
  children.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
}
