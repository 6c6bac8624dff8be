/**
 * Lines on a scroll bar. Browsers cap the height of an element near 17 to 33 million pixels, some 800,000 lines. So the element has a
 * height that is safe, and where the log is taller, a position on the bar stands for one in the log: a small step moves by as many
 * pixels as it says, a long one (the bar is dragged) goes to the same share of the log. After small steps `settle` moves the bar to
 * where the log is, without moving the log.
 */

export const MAX_PX = 8_000_000;

export class ScrollMap {
  /** The log's top edge, in pixels of the log as if it had no limit. */
  top = 0;
  private bar = 0;

  constructor(
    public lines = 0,
    public rowPx = 20,
    public viewPx = 600,
    /** Whether rows may be taller than rowPx: then the last line can be brought to the top, for the end to be in reach. */
    public isWrapped = false,
  ) {}

  /** How far the log can be scrolled. */
  get range(): number {
    const tallest = this.isWrapped ? (this.lines - 1) * this.rowPx : this.lines * this.rowPx - this.viewPx;
    return Math.max(0, tallest);
  }

  /** How far the bar can. */
  get barRange(): number {
    return Math.min(this.range, MAX_PX);
  }

  /** The height of the element that is scrolled. */
  get heightPx(): number {
    return this.barRange + this.viewPx;
  }

  get isAtEnd(): boolean {
    return this.top >= this.range - this.rowPx;
  }

  /** The first line in view, with the hidden share of it behind the point. */
  get line(): number {
    return this.top / this.rowPx;
  }

  /** The bar was moved to here. */
  scrolled(bar: number): void {
    const step = bar - this.bar;
    this.bar = bar;
    const isAtEdge = bar <= 0 || bar >= this.barRange - 1;
    if (!isAtEdge && this.range > MAX_PX && Math.abs(step) <= this.viewPx * 1.5) this.top = this.clamped(this.top + step);
    else this.top = this.barRange ? this.clamped((bar / this.barRange) * this.range) : 0;
  }

  /** Show this line at the top. Answers where the bar is to be. */
  show(line: number): number {
    this.top = this.clamped(line * this.rowPx);
    return this.settle();
  }

  /** Where the bar is to be for what is shown. */
  settle(): number {
    this.top = this.clamped(this.top);
    this.bar = this.range ? Math.round((this.top / this.range) * this.barRange) : 0;
    return this.bar;
  }

  private clamped(top: number): number {
    return Math.max(0, Math.min(this.range, top));
  }
}
