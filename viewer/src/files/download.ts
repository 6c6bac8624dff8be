/** Downloads a file of a pipeline by its link, which is valid for an hour. */

import { api, ApiError } from "../api";
import { save } from "../log/download";
import type { FilesQuery } from "../place";

/** The parameters that choose files. */
export const filesOf = ({ namespace, app, base, from, to, key }: FilesQuery) => ({ namespace, app, base, from, to, key });

/** Start a download by the browser. Throws ApiError, also if the file does not exist anymore. */
export async function downloadFile(query: FilesQuery, key: string): Promise<void> {
  const { files: [file] } = await api.files(filesOf({ ...query, key }));
  if (!file) throw new ApiError(404, "the file does not exist anymore: retention or a deletion removed it");
  save(file.url, key.slice(key.lastIndexOf("/") + 1));
}
