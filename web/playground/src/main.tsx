import "graphiql/setup-workers/vite";
import "graphiql/style.css";
import "@graphiql/plugin-explorer/style.css";
import "./playground.css";

import { explorerPlugin } from "@graphiql/plugin-explorer";
import { GraphiQL, HISTORY_PLUGIN } from "graphiql";
import { useState } from "react";
import { createRoot } from "react-dom/client";

import { Bar } from "./bar";
import { Controls } from "./controls";
import { EXAMPLES } from "./examples";
import { fetcher } from "./fetcher";
import { keepAlive, takeTokenFromAddress } from "./identity";

takeTokenFromAddress();
addEventListener("hashchange", takeTokenFromAddress);
addEventListener("visibilitychange", keepAlive);
keepAlive();

const PLUGINS = [HISTORY_PLUGIN, explorerPlugin()];
const TABS = EXAMPLES.map((query) => ({ query }));
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
          defaultTabs={TABS}
          initialQuery={asked.get("query") ?? undefined}
          initialVariables={asked.get("variables") ?? undefined}
          operationName={asked.get("operationName") ?? undefined}
          defaultEditorToolsVisibility={false}
          inputValueDeprecation
          isHeadersEditorEnabled
          // Headers may contain a token; do not store them.
          shouldPersistHeaders={false}
        >
          <GraphiQL.Logo> </GraphiQL.Logo>
          <Controls place={place} />
        </GraphiQL>
      </main>
    </>
  );
}

createRoot(document.getElementById("root")!).render(<Playground />);
