import { useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { useEffect } from "react";
import { createPortal } from "react-dom";

import { eventLogs } from "./events";
import { ExamplesButton } from "./example-list";
import { onIdentity } from "./identity";
import { useOpenedExamples } from "./opening";
import { ThemeSwitch } from "./theme";

/** The controls of the bar that act on GraphiQL. They are rendered inside GraphiQL, because they need its state, and displayed in `place`. */
export function Controls({ place }: { place: HTMLElement | null }) {
  const schema = useGraphiQL((state) => state.schema);
  const tab = useGraphiQL((state) => state.tabs[state.activeTabIndex]?.id ?? "");
  const queryEditor = useGraphiQL((state) => state.queryEditor);
  const variableEditor = useGraphiQL((state) => state.variableEditor);
  const { introspect, stop } = useGraphiQLActions();
  useOpenedExamples();
  useEffect(() => {
    eventLogs.tab = tab;
    // A subscription ends with its tab. GraphiQL forgets that where the next tab is a new one.
    return stop;
  }, [tab, stop]);
  useEffect(() => {
    const lineNumbers = matchMedia("(max-width: 40rem)").matches ? "off" : "on";
    for (const editor of [queryEditor, variableEditor]) editor?.updateOptions({ wordWrap: "on", lineNumbers });
  }, [queryEditor, variableEditor]);
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
      <ExamplesButton />
      <ThemeSwitch />
    </>
  );
  return place && createPortal(controls, place);
}
