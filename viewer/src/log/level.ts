/** How bad a line says it is: a word of its first letters, or a field `level`. */

export type Level = "error" | "warn" | "info" | "debug";

const WORD = /(?:^|[\s[(<|:"'=])(FATAL|CRITICAL|CRIT|ALERT|EMERG|PANIC|SEVERE|ERROR|ERR|WARNING|WARN|NOTICE|INFO|DEBUG|TRACE|FINE)(?=$|[\s\])>|:"',])/;
const FIELD = /(?:"?(?:level|lvl|severity|levelname)"?\s*[=:]\s*"?)(fatal|critical|panic|error|err|warning|warn|notice|info|debug|trace)\b/i;
const TRACEBACK = /^(?:Traceback \(most recent call last\)|Exception in thread |Caused by: |[\w.]+(?:Error|Exception)(?::|$))/;
/** Results of dbt's console that have no level's word. */
const DBT = /^\d\d:\d\d:\d\d {2}(?:\d+ of \d+ FAIL |Completed with [1-9]\d* errors?\b|(?:[A-Z][a-z]+ Error|Failure) in [a-z]|(?:[A-Z][a-z]+ Error|Encountered an error[a-z ]*)(?::|$))/;
const LOOKED_AT_CHARS = 240;

export interface Found {
  level: Level;
  /** Where the word stands in the text, if one does. */
  from: number;
  to: number;
}

export function levelOf(text: string): Found | null {
  const head = text.slice(0, LOOKED_AT_CHARS);
  const match = FIELD.exec(head) ?? WORD.exec(head);
  if (match?.[1]) {
    const from = match.index + match[0].lastIndexOf(match[1]);
    return { level: named(match[1].toLowerCase()), from, to: from + match[1].length };
  }
  return TRACEBACK.test(head) || DBT.test(head) ? { level: "error", from: 0, to: 0 } : null;
}

function named(word: string): Level {
  if (word.startsWith("warn")) return "warn";
  if (word === "info" || word === "notice") return "info";
  if (word === "debug" || word === "trace" || word === "fine") return "debug";
  return "error";
}
