/** Downloads the run's log as a file. */

import { api, base, downloadPath, request } from "../api";
import { session } from "../session";

/** Start a download by the browser, which needs no memory: of the log, or with a token, of the link to a large log. With a token, a small
 * log is fetched into memory. */
export async function download(fqn: string, runId: string): Promise<void> {
  if (!session.token) return save(base + downloadPath(fqn, runId), "");
  const { location } = await api.link(fqn, runId);
  if (location) return save(location, "");
  const response = await request(downloadPath(fqn, runId));
  const address = URL.createObjectURL(await response.blob());
  save(address, `${fqn}-${runId}.log`.replace(/[^\w.-]+/g, "_"));
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Have the browser download an address. */
export function save(href: string, fileName: string): void {
  const link = document.createElement("a");
  Object.assign(link, { href, download: fileName });
  link.click();
}
