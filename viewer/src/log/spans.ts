/** Where something stands in a text: its beginning, and what is behind its end. */
export type Span = [number, number];

/** The server counts characters, this page UTF-16 units. */
export function inUnits(text: string, spans: Span[]): Span[] {
  if (!/[\ud800-\udfff]/.test(text)) return spans;
  const starts: number[] = [];
  let at = 0;
  for (const char of text) {
    starts.push(at);
    at += char.length;
  }
  starts.push(at);
  return spans.map(([from, to]) => [starts[from] ?? at, starts[to] ?? at]);
}
