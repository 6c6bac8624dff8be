/**
 * Maps a scroll bar to the lines of a log. Browsers limit the height of an element to 17 to 33 million pixels, about 800,000 lines, so the
 * element's height is capped. In a taller log, a small step of the bar scrolls by the same number of pixels; a long one (the bar is
 * dragged) scrolls to the same share of the log. After small steps, `settle` adjusts the bar without scrolling the log.
 */

export const MAX_PX = 8_000_000;

export class ScrollMap {
  /** Scroll offset of the view, in pixels of the uncapped log. */
  top = 0;
  private bar = 0;

  constructor(
    public lines = 0,
    public rowPx = 20,
    public viewPx = 600,
    /** Whether rows may be taller than rowPx. Then the last line can be scrolled to the top, so that its end can be reached. */
    public isWrapped = false,
  ) {}

  /** Maximum scroll offset of the log. */
  get range(): number {
    const range = this.isWrapped ? (this.lines - 1) * this.rowPx : this.lines * this.rowPx - this.viewPx;
    return Math.max(0, range);
  }

  /** Maximum scroll offset of the bar. */
  get barRange(): number {
    return Math.min(this.range, MAX_PX);
  }

  /** Height of the scrolled element. */
  get heightPx(): number {
    return this.barRange + this.viewPx;
  }

  get isAtEnd(): boolean {
    return this.top >= this.range - this.rowPx;
  }

  /** The first visible line; the fraction is its hidden share. */
  get line(): number {
    return this.top / this.rowPx;
  }

  /** Handle a movement of the bar to an offset. */
  scrolled(bar: number): void {
    const step = bar - this.bar;
    this.bar = bar;
    const isAtEdge = bar <= 0 || bar >= this.barRange - 1;
    if (!isAtEdge && this.range > MAX_PX && Math.abs(step) <= this.viewPx * 1.5) this.top = this.clamped(this.top + step);
    else this.top = this.barRange ? this.clamped((bar / this.barRange) * this.range) : 0;
  }

  /** Scroll a line to the top. Returns the bar's new offset. */
  show(line: number): number {
    this.top = this.clamped(line * this.rowPx);
    return this.settle();
  }

  /** Returns the bar's offset for the present scroll offset of the log. */
  settle(): number {
    this.top = this.clamped(this.top);
    this.bar = this.range ? Math.round((this.top / this.range) * this.barRange) : 0;
    return this.bar;
  }

  private clamped(top: number): number {
    return Math.max(0, Math.min(this.range, top));
  }
}
