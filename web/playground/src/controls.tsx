import { useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { useEffect, useState } from "react";
import { createPortal } from "react-dom";

import { EXAMPLES, nameOf } from "./examples";
import { onIdentity } from "./identity";

const DARK = matchMedia("(prefers-color-scheme: dark)");

/** The controls of the bar that act on GraphiQL. They are rendered inside GraphiQL, because they need its state, and displayed in `place`. */
export function Controls({ place }: { place: HTMLElement | null }) {
  const schema = useGraphiQL((state) => state.schema);
  const { introspect } = useGraphiQLActions();
  // A refused token gets no schema either; the next one may, once it is complete.
  useEffect(() => {
    if (schema) return;
    let timer: ReturnType<typeof setTimeout>;
    const ignore = onIdentity(() => {
      clearTimeout(timer);
      timer = setTimeout(() => void introspect(), 300);
    });
    return () => {
      ignore();
      clearTimeout(timer);
    };
  }, [schema, introspect]);
  const controls = (
    <>
      <Examples />
      <Theme />
    </>
  );
  return place && createPortal(controls, place);
}

function Theme() {
  const theme = useGraphiQL((state) => state.theme);
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
  const shown = theme ?? (systemIsDark ? "dark" : "light");
  useEffect(() => {
    document.documentElement.dataset.theme = shown;
  }, [shown]);
  const other = shown === "dark" ? "light" : "dark";
  return (
    <button type="button" aria-label={`Switch to ${other}`} title={`Switch to ${other}`} onClick={() => setTheme(other)}>
      <span aria-hidden="true">{other === "dark" ? "☾" : "☀"}</span>
    </button>
  );
}

/** Opens an example in a tab; in its existing tab if it is unchanged there. */
function Examples() {
  const tabs = useGraphiQL((state) => state.tabs);
  const queryEditor = useGraphiQL((state) => state.queryEditor);
  const { addTab, changeTab } = useGraphiQLActions();
  const [wanted, setWanted] = useState<string | null>(null);
  useEffect(() => {
    if (wanted === null || !queryEditor) return;
    setWanted(null);
    queryEditor.setValue(wanted);
  }, [wanted, queryEditor, tabs]);
  const open = (example: string) => {
    const there = tabs.findIndex((tab) => tab.query === example);
    if (there >= 0) return changeTab(there);
    addTab();
    setWanted(example);
  };
  return (
    <select
      aria-label="Open an example"
      value=""
      onChange={(event) => {
        const example = EXAMPLES[Number(event.target.value)];
        if (example) open(example);
      }}
    >
      <option value="">Examples…</option>
      {EXAMPLES.map((example, number) => (
        <option key={number} value={number}>
          {nameOf(example)}
        </option>
      ))}
    </select>
  );
}
