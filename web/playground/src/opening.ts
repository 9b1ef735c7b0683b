import { useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { useEffect, useState } from "react";

import type { Example } from "./examples";
import { identity, people } from "./identity";
import { setNotice } from "./notice";
import { fill } from "./values";

interface OpenedExample {
  example: Example;
  variables: string;
  headers: string;
}

let show: (opened: OpenedExample) => void = () => undefined;
let asked = 0;

/** Opens an example in a tab, with variables that fit the demo's data. Of several calls in a row, the last counts. */
export async function openExample(example: Example): Promise<void> {
  const mine = ++asked;
  setNotice(null);
  const { problem, ...filled } = await fill(example);
  if (mine !== asked) return;
  show({ example, ...filled });
  const person = (await people()).find(({ id }) => id === "alice");
  const current = identity()?.person;
  if (problem) setNotice({ text: problem });
  else if (person && current?.id !== person.id && !filled.headers.includes("Authorization")) {
    setNotice({ text: `This example is made for ${person.displayName}.`, signIn: person });
  }
}

/** Shows opened examples in GraphiQL: each in its own tab. Opening one again reuses its tab if it is unchanged. */
export function useOpenedExamples(): void {
  const tabs = useGraphiQL((state) => state.tabs);
  const queryEditor = useGraphiQL((state) => state.queryEditor);
  const variableEditor = useGraphiQL((state) => state.variableEditor);
  const headerEditor = useGraphiQL((state) => state.headerEditor);
  const { addTab, changeTab, updateActiveTabValues } = useGraphiQLActions();
  const [opened, setOpened] = useState<OpenedExample | null>(null);
  useEffect(() => {
    show = setOpened;
    return () => void (show = () => undefined);
  }, []);
  useEffect(() => {
    // The editors are loaded later than the page.
    if (!opened || !queryEditor || !variableEditor || !headerEditor) return;
    setOpened(null);
    const { example, variables, headers } = opened;
    const existing = tabs.findIndex((tab) => tab.query === example.text);
    if (existing >= 0) changeTab(existing);
    else addTab();
    queryEditor.setValue(example.text);
    variableEditor.setValue(variables);
    headerEditor.setValue(headers);
    updateActiveTabValues({ query: example.text, variables, headers, operationName: example.name });
    if (variables) showTool("variables");
    else if (headers) showTool("headers");
  }, [opened, tabs, queryEditor, variableEditor, headerEditor, addTab, changeTab, updateActiveTabValues]);
}

/** Shows the editor of variables or headers below the operation. GraphiQL has no other way to do that. */
function showTool(name: "variables" | "headers"): void {
  document.querySelector<HTMLElement>(`.graphiql-editor-tools [data-name="${name}"]`)?.click();
}
