/** What goes wrong between this page and the API. */

/** The API refused, or (status 0) nobody answered. */
export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }

  /** Whether the same request may go well in a moment. */
  get isPassing(): boolean {
    return this.status === 0 || this.status >= 500 || this.status === 429;
  }
}
