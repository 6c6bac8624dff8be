/** The user's token, and the login that it is from. The browser keeps both until the tab is closed. */

const TOKEN = "runlake.token";
const LOGIN = "runlake.login";

/** Where people log in, and as which client: `login` in the configuration of the page. */
export interface LoginConfig { issuer: string; clientId: string; scopes: string; parameters: Record<string, string> }
/** `endsMs`: when the token expires, or null if the issuer does not say. `refreshToken` null: the issuer gave none. */
export interface Login { config: LoginConfig; refreshToken: string | null; endsMs: number | null }

export const session = {
  get token(): string {
    return sessionStorage.getItem(TOKEN) ?? "";
  },
  get login(): Login | null {
    return JSON.parse(sessionStorage.getItem(LOGIN) ?? "null") as Login | null;
  },
  /** Set a token, and the login that it is from, if any; "" removes both. */
  set(token: string, login: Login | null = null): void {
    put(TOKEN, token);
    put(LOGIN, login && JSON.stringify(login));
  },
};

function put(key: string, value: string | null): void {
  if (value) sessionStorage.setItem(key, value);
  else sessionStorage.removeItem(key);
}
