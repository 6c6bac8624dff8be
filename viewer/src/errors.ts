/** Errors of requests to the API. */

/** An error response, or (status 0) no response. */
export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }

  /** Whether a retry of the request may succeed. */
  get isTransient(): boolean {
    return this.status === 0 || this.status >= 500 || this.status === 429;
  }
}

/** A login that failed; `isAway`: because the issuer does not respond. The text is for people. */
export class LoginError extends ApiError {
  constructor(message: string, readonly isAway = false) {
    super(isAway ? 0 : 401, message);
  }
}
