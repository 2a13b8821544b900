/** Light, dark, or as the system has it. The choice is kept in the browser. */

export type Theme = "system" | "light" | "dark";

const KEY = "ottla-theme";
const CHANGED = "ottla-theme-changed";
const systemIsDark = window.matchMedia("(prefers-color-scheme: dark)");

export function theme(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function isDark(): boolean {
  return theme() === "dark" || (theme() === "system" && systemIsDark.matches);
}

export function applyTheme(chosen: Theme = theme()): void {
  if (chosen === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, chosen);
  document.documentElement.dataset.theme = chosen;
  window.dispatchEvent(new Event(CHANGED));
}

export function toggleTheme(): void {
  applyTheme(isDark() ? "light" : "dark");
}

export function onThemeChange(listener: () => void): () => void {
  window.addEventListener(CHANGED, listener);
  systemIsDark.addEventListener("change", listener);
  return () => {
    window.removeEventListener(CHANGED, listener);
    systemIsDark.removeEventListener("change", listener);
  };
}

/** The value of a colour token, for a canvas, which knows no CSS variables. */
export function colour(token: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${token})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
