/** The application of a pipeline, whose files the server lists together. */

export interface Application { namespace: string; app: string }

/** The first two parts of the pipeline's name, or its only part twice; null: a quoted name, whose parts may have dots. */
export function applicationOf(fqn: string): Application | null {
  const [namespace = "", app = namespace] = fqn.split(".");
  return fqn.includes('"') ? null : { namespace, app };
}
