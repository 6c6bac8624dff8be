/** A range of a text: start, and exclusive end. */
export type Span = [number, number];

/** Convert spans from characters, as the server counts, to UTF-16 units. */
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
