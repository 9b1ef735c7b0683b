import "graphiql/setup-workers/vite";
import "graphiql/style.css";
import "@graphiql/plugin-explorer/style.css";
import "../../demo/src/ui/colours.css";
import "./playground.css";
import "./panels.css";

import { explorerPlugin } from "@graphiql/plugin-explorer";
import type { GraphiQLPlugin } from "@graphiql/react";
import { GraphiQL, HISTORY_PLUGIN } from "graphiql";
import { useState } from "react";
import { createRoot } from "react-dom/client";

import { Bar } from "./bar";
import { Controls } from "./controls";
import { EventLog } from "./event-log";
import { EXAMPLES_PLUGIN } from "./example-list";
import { EXAMPLES } from "./examples";
import { fetcher } from "./fetcher";
import { keepAlive, takeTokenFromAddress } from "./identity";
import { applyFirstTheme, EDITOR_THEMES } from "./theme";

applyFirstTheme();
takeTokenFromAddress();
addEventListener("hashchange", takeTokenFromAddress);
addEventListener("visibilitychange", keepAlive);
keepAlive();

const CLOSED = "confab:playground:closed";
const PLUGINS = [EXAMPLES_PLUGIN, HISTORY_PLUGIN, explorerPlugin()];
const FIRST_TAB = [{ query: EXAMPLES[0]!.text }];
const FIRST_PLUGIN = firstPlugin();
const asked = new URLSearchParams(location.search);

function Playground() {
  const [place, setPlace] = useState<HTMLElement | null>(null);
  return (
    <>
      <Bar controls={setPlace} />
      <main>
        <GraphiQL
          fetcher={fetcher}
          plugins={PLUGINS}
          visiblePlugin={FIRST_PLUGIN}
          onTogglePluginVisibility={rememberClosed}
          defaultTabs={FIRST_TAB}
          initialQuery={asked.get("query") ?? undefined}
          initialVariables={asked.get("variables") ?? undefined}
          operationName={asked.get("operationName") ?? undefined}
          defaultEditorToolsVisibility={false}
          editorTheme={EDITOR_THEMES}
          inputValueDeprecation
          isHeadersEditorEnabled
          // Headers may contain a token; do not store them.
          shouldPersistHeaders={false}
        >
          <GraphiQL.Logo> </GraphiQL.Logo>
          <GraphiQL.Footer>
            <EventLog />
          </GraphiQL.Footer>
          <Controls place={place} />
        </GraphiQL>
      </main>
    </>
  );
}

/** The list of examples where there is room for it, until the user closes it. */
function firstPlugin(): GraphiQLPlugin | undefined {
  const isWide = matchMedia("(min-width: 64rem)").matches;
  return isWide && !wasClosed() ? EXAMPLES_PLUGIN : undefined;
}

function wasClosed(): boolean {
  try {
    return localStorage.getItem(CLOSED) !== null;
  } catch {
    // Storage is disabled.
    return false;
  }
}

function rememberClosed(shown: GraphiQLPlugin | null): void {
  try {
    if (shown) localStorage.removeItem(CLOSED);
    else localStorage.setItem(CLOSED, "");
  } catch {
    // Storage is disabled.
  }
}

createRoot(document.getElementById("root")!).render(<Playground />);
