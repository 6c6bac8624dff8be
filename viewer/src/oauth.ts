/** Requests of a login: OpenID Connect with an authorization code and PKCE. The library checks state, nonce, issuer, audience and times. */

import * as oauth from "oauth4webapi";
import { LoginError } from "./errors";
import { type Login, type LoginConfig, session } from "./session";

const BEGUN = "runlake.login.begun";
const TIMEOUT_MS = 10_000;
/** Also sent with requests for tokens: they choose the audience. */
const OF_TOKENS = ["audience", "resource"];

/** A login between its two pages. `place`: the query and fragment where it began. */
interface Begun { config: LoginConfig; state: string; nonce: string; verifier: string; place: string }

const redirectUri = (): string => new URL(".", location.href).href;
const clientOf = (config: LoginConfig): oauth.Client => ({ client_id: config.clientId });
const hasIdToken = (config: LoginConfig): boolean => config.scopes.split(" ").includes("openid");

/** Not `javascript:` and the like. */
const isOfWeb = ({ protocol }: URL): boolean => protocol === "https:" || protocol === "http:";

/** Plain HTTP only on this machine. */
function options(config: LoginConfig): { signal: () => AbortSignal; [oauth.allowInsecureRequests]: boolean; additionalParameters: Record<string, string> } {
  const isLocal = ["127.0.0.1", "localhost"].includes(new URL(config.issuer).hostname);
  const additionalParameters = Object.fromEntries(Object.entries(config.parameters).filter(([name]) => OF_TOKENS.includes(name)));
  return { signal: () => AbortSignal.timeout(TIMEOUT_MS), [oauth.allowInsecureRequests]: isLocal, additionalParameters };
}

export async function start(config: LoginConfig, place: string): Promise<void> {
  const server = await explained(config, discover(config));
  if (!server.authorization_endpoint) throw new LoginError("The login server does not say where people log in.");
  const begun: Begun = { config, state: oauth.generateRandomState(), nonce: oauth.generateRandomNonce(), verifier: oauth.generateRandomCodeVerifier(), place };
  const address = new URL(server.authorization_endpoint);
  const query: Record<string, string> = {
    ...config.parameters, client_id: config.clientId, redirect_uri: redirectUri(), response_type: "code", scope: config.scopes, state: begun.state,
    code_challenge: await oauth.calculatePKCECodeChallenge(begun.verifier), code_challenge_method: "S256", ...(hasIdToken(config) && { nonce: begun.nonce }),
  };
  for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value);
  if (!isOfWeb(address)) throw new LoginError("The login server's address is not valid.");
  sessionStorage.setItem(BEGUN, JSON.stringify(begun));
  location.assign(address);
}

export async function finish(answer: URL): Promise<void> {
  const begun = JSON.parse(sessionStorage.getItem(BEGUN) ?? "null") as Begun | null;
  sessionStorage.removeItem(BEGUN);
  if (!begun) throw new LoginError("This answer belongs to no login that began in this tab. Log in again.");
  history.replaceState(null, "", begun.place || "./");
  await explained(begun.config, exchange(begun, answer));
}

async function exchange({ config, state, nonce, verifier }: Begun, answer: URL): Promise<void> {
  const [server, client] = [await discover(config), clientOf(config)];
  const parameters = oauth.validateAuthResponse(server, client, answer, state);
  const response = await oauth.authorizationCodeGrantRequest(server, client, oauth.None(), parameters, redirectUri(), verifier, options(config));
  const expected = hasIdToken(config) ? { expectedNonce: nonce, requireIdToken: true } : {};
  keep(config, await oauth.processAuthorizationCodeResponse(server, client, response, expected), null);
}

/** Another token for a login. One that has ended for good is forgotten. */
export async function refresh({ config, refreshToken }: Login): Promise<void> {
  try {
    const [server, client] = [await discover(config), clientOf(config)];
    const response = await oauth.refreshTokenGrantRequest(server, client, oauth.None(), refreshToken ?? "", options(config));
    keep(config, await oauth.processRefreshTokenResponse(server, client, response), refreshToken);
  } catch (error) {
    if (error instanceof oauth.ResponseBodyError && error.error === "invalid_grant") return session.set("");
    throw explanation(config, error);
  }
}

/** End a login at its issuer. Returns whether the browser leaves for a page of the issuer. */
export async function end({ config, refreshToken }: Login): Promise<boolean> {
  const server = await discover(config);
  if (refreshToken && server.revocation_endpoint) {
    await oauth.revocationRequest(server, clientOf(config), oauth.None(), refreshToken, options(config)).catch(() => undefined);
  }
  if (!server.end_session_endpoint) return false;
  const address = new URL(server.end_session_endpoint);
  // Without id_token_hint: no token is in a URL. `logout_uri` is Cognito's name.
  for (const [name, value] of [["client_id", config.clientId], ["post_logout_redirect_uri", redirectUri()], ["logout_uri", redirectUri()]] as const) address.searchParams.set(name, value);
  if (!isOfWeb(address)) return false;
  location.assign(address);
  return true;
}

async function discover(config: LoginConfig): Promise<oauth.AuthorizationServer> {
  const issuer = new URL(config.issuer);
  return oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, options(config)));
}

function keep(config: LoginConfig, answer: oauth.TokenEndpointResponse, earlier: string | null): void {
  if (answer.token_type !== "bearer") throw new LoginError("The login server gave a token of another kind than bearer.");
  const endsMs = answer.expires_in === undefined ? null : Date.now() + answer.expires_in * 1000;
  session.set(answer.access_token, { config, refreshToken: answer.refresh_token ?? earlier, endsMs });
}

async function explained<Result>(config: LoginConfig, request: Promise<Result>): Promise<Result> {
  return request.catch((error: unknown) => {
    throw explanation(config, error);
  });
}

function explanation(config: LoginConfig, error: unknown): LoginError {
  if (error instanceof LoginError) return error;
  const { host } = new URL(config.issuer);
  if (error instanceof oauth.AuthorizationResponseError || error instanceof oauth.ResponseBodyError) {
    return new LoginError(`${host} refused the login: ${error.error_description ?? error.error}`);
  }
  if (error instanceof oauth.OperationProcessingError || error instanceof oauth.UnsupportedOperationError || error instanceof oauth.WWWAuthenticateChallengeError) {
    return new LoginError(`The answer of ${host} is not valid, so you are not logged in: ${error.message}. Log in again; if the error persists, contact the operator.`);
  }
  return new LoginError(`The login server ${host} does not respond. Try again later; runs keep storing their logs meanwhile.`, true);
}
