/** Dark or light theme: the system's preference, unless the user has chosen one. */

const KEY = "runlake.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

export function isDark(): boolean {
  const chosen = localStorage.getItem(KEY);
  return chosen ? chosen === "dark" : dark.matches;
}

export function applyTheme(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
}

export function switchTheme(): void {
  localStorage.setItem(KEY, isDark() ? "light" : "dark");
  applyTheme();
}

dark.addEventListener("change", applyTheme);
