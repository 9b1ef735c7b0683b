import "graphiql/setup-workers/vite";
import "graphiql/style.css";

import { createGraphiQLFetcher } from "@graphiql/toolkit";
import { GraphiQL } from "graphiql";
import { createRoot } from "react-dom/client";

const fetcher = createGraphiQLFetcher({ url: "/graphql" });
createRoot(document.getElementById("root")!).render(<GraphiQL fetcher={fetcher} />);
