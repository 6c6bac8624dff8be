/** Elements. Children that are text become text nodes, whatever they hold: there is no other way into the page. */

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

/** `on…` attributes that are functions are listeners; true is an attribute without a value, false and null are none. */
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

/** A name that somebody else chose: in a direction of its own, so that it turns nothing around it. */
export const name = (text: string): HTMLElement => el("bdi", { class: "name" }, text);

/** What an element holds from now on. Where that is what it holds already nothing is touched: selections and titles stay. */
export function fill(node: HTMLElement, ...children: (Child | Child[])[]): void {
  const made = node.cloneNode(false) as HTMLElement;
  made.append(...children.flat().filter((child): child is Node | string => Boolean(child)));
  if (!made.isEqualNode(node)) node.replaceChildren(...made.childNodes);
}

/** These children in this order. Those that stand there already are not moved: what has the focus keeps it. */
export function arrange(parent: Element, children: Element[]): void {
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  children.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
}
