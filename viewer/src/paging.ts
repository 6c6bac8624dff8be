/** Lists that come in pages, each of which names where the next begins. */

export interface Completeness { state: "complete" | "pending" | "lost"; sealed: boolean; writers: { writer: string }[]; lost: string[] }

export type Paged<Page> = Page & { after?: string | null };

/** All pages; a server of a version before has one, without `after`. */
export async function pagesOf<Page>(load: (after: string | null) => Promise<Paged<Page>>): Promise<Page[]> {
  const pages: Page[] = [];
  let after: string | null = null;
  do {
    const page: Paged<Page> = await load(after);
    pages.push(page);
    after = page.after ?? null;
  } while (after !== null);
  return pages;
}

export interface Found<Item> {
  items: Item[];
  /** Where to go on; null at the end. */
  cursor: string | null;
}

/** Items from a cursor on until there are `enough`, by at most `mostRequests`: a page may be empty and go on. */
export async function untilEnough<Item>(load: (cursor: string | null) => Promise<Found<Item>>, cursor: string | null, enough: number, mostRequests: number): Promise<Found<Item>> {
  const found: Found<Item> = { items: [], cursor };
  for (let request = 0; request < mostRequests; request += 1) {
    const page = await load(found.cursor);
    found.items.push(...page.items);
    found.cursor = page.cursor;
    if (found.cursor === null || found.items.length >= enough) break;
  }
  return found;
}

/** The last page has the latest state; each writer is on one page. */
export function joined(pages: Completeness[]): Completeness {
  return { ...pages[pages.length - 1]!, writers: pages.flatMap((page) => page.writers), lost: pages.flatMap((page) => page.lost) };
}
