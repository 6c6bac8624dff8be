/** Lists that come in pages, each of which names where the next begins. */

import type { Completeness } from "./api";

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

/** The last page has the latest state; each writer is on one page. */
export function joined(pages: Completeness[]): Completeness {
  return { ...pages[pages.length - 1]!, writers: pages.flatMap((page) => page.writers), lost: pages.flatMap((page) => page.lost) };
}
