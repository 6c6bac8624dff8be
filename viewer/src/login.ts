/** Logins: when the page asks the issuer for another token. How it asks is in `oauth`, which is loaded when it is needed. */

import { LoginError } from "./errors";
import { type Login, session } from "./session";

const EARLY_MS = 30_000;
let renewing: Promise<void> | null = null;

/** The token for a request, renewed if it ends soon. Throws LoginError if it has ended and the issuer does not respond. */
export async function currentToken(): Promise<string> {
  const endsMs = session.login?.endsMs ?? Infinity;
  if (endsMs - Date.now() > EARLY_MS) return session.token;
  await renew().catch((error: unknown) => {
    if (endsMs <= Date.now()) throw error;
  });
  return session.token;
}

/** Whether there is another token than this one, which the API refused. Throws LoginError. */
export async function isRenewed(refused: string): Promise<boolean> {
  if (session.token === refused) await renew();
  return session.token !== "" && session.token !== refused;
}

/** One at a time: issuers that rotate refresh tokens take a second use of one for a theft. */
async function renew(): Promise<void> {
  const { login } = session;
  if (!login?.refreshToken) return;
  await (renewing ??= import("./oauth").then(({ refresh }) => refresh(login)).finally(() => (renewing = null)));
}

/** Whether a URL is the issuer's answer to a login. */
export function isAnswer(search: string): boolean {
  const query = new URLSearchParams(search);
  return query.has("state") && (query.has("code") || query.has("error"));
}

/** Complete the login that the page's URL is the answer to; the URL then is the one where it began. Throws LoginError. */
export async function complete(): Promise<void> {
  const answer = new URL(location.href);
  history.replaceState(null, "", "./");
  await load(async ({ finish }) => finish(answer));
}

/** Leave the page for the issuer's, to return to `place`, a query and a fragment. Throws LoginError. */
export const begin = (config: Login["config"], place: string): Promise<void> => load(({ start }) => start(config, place));

/** Forget the tokens, and end the login at the issuer. Returns whether the browser leaves for its page. */
export async function logOut(): Promise<boolean> {
  const { login } = session;
  session.set("");
  return login !== null && load(({ end }) => end(login)).catch(() => false);
}

type OAuth = typeof import("./oauth");
async function load<Result>(use: (oauth: OAuth) => Promise<Result>): Promise<Result> {
  const oauth = await import("./oauth").catch(() => {
    throw new LoginError("A part of this page could not be loaded. Reload the page.");
  });
  return use(oauth);
}
