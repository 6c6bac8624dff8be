/** Loads lists page by page; each page names the start of the next one. */

export interface Completeness { state: "complete" | "pending" | "lost"; sealed: boolean; writers: { writer: string }[]; lost: string[] }

export type Paged<Page> = Page & { after: string | null };

/** All pages. */
export async function allPages<Page>(load: (after: string | null) => Promise<Paged<Page>>): Promise<Page[]> {
  const pages: Page[] = [];
  let after: string | null = null;
  do {
    const page: Paged<Page> = await load(after);
    pages.push(page);
    after = page.after;
  } while (after);
  return pages;
}

export interface Batch<Item> {
  items: Item[];
  /** Start of the next page; null at the end. */
  cursor: string | null;
}

/** Load pages until there are at least `enough` items, with at most `maxRequests` requests: a page may be empty and still have a cursor. */
export async function loadUntil<Item>(load: (cursor: string | null) => Promise<Batch<Item>>, cursor: string | null, enough: number, maxRequests: number): Promise<Batch<Item>> {
  const batch: Batch<Item> = { items: [], cursor };
  for (let request = 0; request < maxRequests; request += 1) {
    const page = await load(batch.cursor);
    batch.items.push(...page.items);
    batch.cursor = page.cursor;
    if (batch.cursor === null || batch.items.length >= enough) break;
  }
  return batch;
}

/** Limits of one request with many names: of the API, and of an address. */
const MAX_NAMES = 20;
const MAX_CHARS = 4_000;

/** Names for one request each. */
export function batches(names: string[]): string[][] {
  const result: string[][] = [];
  let chars = 0;
  for (const name of names) {
    const last = result.at(-1);
    const length = encodeURIComponent(name).length;
    if (last && last.length < MAX_NAMES && chars + length <= MAX_CHARS) last.push(name);
    else [chars] = [0, result.push([name])];
    chars += length;
  }
  return result;
}

/** Merge the pages: the last one has the latest state, and each writer is on one page. */
export function mergeCompleteness(pages: Completeness[]): Completeness {
  return { ...pages[pages.length - 1]!, writers: pages.flatMap((page) => page.writers), lost: pages.flatMap((page) => page.lost) };
}
