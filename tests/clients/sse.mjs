// The same over server-sent events, for networks that block WebSockets.
import { createClient } from "graphql-sse";
import { tryPlain } from "./plain.mjs";
import { noting, sleep } from "./scenario.mjs";

await tryPlain(({ url, token }) => noting(createClient({
  url,
  headers: async () => ({ authorization: `Bearer ${await token()}` }),
  retryAttempts: Infinity,
  retry: () => sleep(20),
})));
