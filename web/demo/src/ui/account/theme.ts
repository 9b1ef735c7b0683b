/** Light or dark: the system's choice, until the user switches. */
import { useSyncExternalStore } from "react";

import { disk } from "../../confab/disk";

const KEY = "confab.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

const show = () => {
  root.dataset.theme = disk.get(KEY) ?? (system.matches ? "dark" : "light");
};

export function startTheme() {
  show();
  system.addEventListener("change", show);
  addEventListener("storage", show);
}

const watch = (listener: () => void) => {
  const observer = new MutationObserver(listener);
  observer.observe(root, { attributeFilter: ["data-theme"] });
  return () => observer.disconnect();
};

export function useTheme() {
  const theme = useSyncExternalStore(watch, () => root.dataset.theme);
  const other = theme === "dark" ? "light" : "dark";
  return { other, toggle: () => (disk.set(KEY, other), show()) };
}
