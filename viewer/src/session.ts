/** The user's token. The browser keeps it until the tab is closed. */

const KEY = "runlake.token";

export const session = {
  get token(): string {
    return sessionStorage.getItem(KEY) ?? "";
  },
  set token(value: string) {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  },
};
