// Light, dark, or as the system has it. Kept by the browser for this address.
import { html, useState } from "../lib.mjs";

const KEY = "mcpx.theme";
const NEXT = { system: "light", light: "dark", dark: "system" };
const ICONS = {
  system: "M2.5 3.5h11v7h-11zM6 13.5h4M8 10.5v3",
  light:
    "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM8 1.5v1m0 11v1M1.5 8h1m11 0h1M3.4 3.4l.7.7m7.8 7.8.7.7M3.4 12.6l.7-.7m7.8-7.8.7-.7",
  dark: "M13 9.6A5.6 5.6 0 0 1 6.4 3 5.6 5.6 0 1 0 13 9.6z",
};

function kept() {
  try {
    const found = localStorage.getItem(KEY);
    return found in NEXT ? found : "system";
  } catch {
    return "system"; // storage is off
  }
}

function apply(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

apply(kept());

export function Theme() {
  const [theme, setTheme] = useState(kept());
  function change() {
    const next = NEXT[theme];
    apply(next);
    setTheme(next);
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // it lasts until the page is closed
    }
  }
  return html`<button type="button" class="quiet" onClick=${change}
    aria-label=${`Colours: ${theme}. Change to ${NEXT[theme]}`} title=${`Colours: ${theme}`}>
    <svg viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.4"
      stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${ICONS[theme]} /></svg>
  </button>`;
}
