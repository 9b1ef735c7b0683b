import { useGraphiQL, useGraphiQLActions, useMonaco } from "@graphiql/react";
import { useEffect, useState } from "react";

import { editorTheme, graphiqlColours, type Theme } from "./colours";

const DARK = matchMedia("(prefers-color-scheme: dark)");
const STORED = "graphiql:theme"; // where GraphiQL keeps the choice

/** Names of the editors' themes, for GraphiQL. */
export const EDITOR_THEMES = { light: "confab-light", dark: "confab-dark" };

/** Displays the page in the chosen theme, or else in the system's, before GraphiQL is loaded. */
export function applyFirstTheme(): void {
  const stored = read();
  apply(stored ?? (DARK.matches ? "dark" : "light"));
}

/** Switches between light and dark. Without a choice the page follows the system. */
export function ThemeSwitch() {
  const theme = useGraphiQL((state) => state.theme);
  const monaco = useMonaco((state) => state.monaco);
  const { setTheme } = useGraphiQLActions();
  const [systemIsDark, setSystemIsDark] = useState(DARK.matches);
  useEffect(() => {
    const follow = () => {
      setSystemIsDark(DARK.matches);
      // Its editors follow the system's theme only if they are given one.
      if (!theme) setTheme(null);
    };
    DARK.addEventListener("change", follow);
    return () => DARK.removeEventListener("change", follow);
  }, [theme, setTheme]);
  const shown: Theme = theme ?? (systemIsDark ? "dark" : "light");
  useEffect(() => apply(shown), [shown]);
  useEffect(() => {
    if (!monaco) return;
    for (const each of ["light", "dark"] as const) monaco.editor.defineTheme(EDITOR_THEMES[each], editorTheme(each));
    monaco.editor.setTheme(EDITOR_THEMES[shown]);
  }, [monaco, shown]);
  const other = shown === "dark" ? "light" : "dark";
  return (
    <button type="button" className="theme" aria-label={`Switch to ${other}`} title={`Switch to ${other}`} onClick={() => setTheme(other)}>
      <span aria-hidden="true">{other === "dark" ? "☾" : "☀"}</span>
    </button>
  );
}

function apply(theme: Theme): void {
  const root = document.documentElement;
  root.dataset.theme = theme;
  for (const [name, value] of Object.entries(graphiqlColours(theme))) root.style.setProperty(name, value);
}

function read(): Theme | null {
  try {
    const stored = localStorage.getItem(STORED);
    return stored === "light" || stored === "dark" ? stored : null;
  } catch {
    // Storage is disabled.
    return null;
  }
}
