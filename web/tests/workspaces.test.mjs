// Workspaces of @confab/client (client/src/live/workspaces.ts) with a server that the test answers for: node --test workspaces.test.mjs
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const source = (path) => JSON.stringify(fileURLToPath(new URL(`../client/src/${path}`, import.meta.url)));
const text = `export * from ${source("store/store.ts")}; export * from ${source("live/workspaces.ts")};`;
const together = { name: "together", resolveId: (id) => (id.endsWith("/together") ? "together" : null), load: (id) => (id === "together" ? text : null) };
const [{ output }] = await build({ configFile: false, logLevel: "silent", plugins: [together], build: { write: false, minify: false, lib: { entry: "together", formats: ["es"] } } });
const { openWorkspaces, Store } = await import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);

const nothing = () => {};
const settled = () => new Promise((resolve) => setImmediate(resolve));
const WORKSPACE = { id: "w_1", name: "Hikers", iconUrl: null, memberCount: 1, onlineCount: 1, rev: 1 };
const channels = (cursor) => ({ syncChannels: { channels: [], gone: [], cursor, hasMore: false, reset: false } });

/** A client that follows one workspace. */
function open() {
  const [requests, sinks] = [[], []];
  const request = ({ name }, variables) => new Promise((resolve, reject) => requests.push({ name, variables, resolve, reject }));
  const api = { request, subscribe: (_operation, _variables, sink) => (sinks.push(sink), nothing), now: Date.now };
  const workspaces = openWorkspaces(api, new Store(), { caughtUp: nothing, streamEnded: nothing });
  workspaces.follow([WORKSPACE], "c0");
  return { requests, sinks, workspaces };
}

test("channels that change while they are being fetched are fetched again", async () => {
  const { requests, workspaces } = open();
  workspaces.pullChannels();
  workspaces.pullChannels();
  assert.equal(requests.length, 1);
  requests[0].resolve(channels("c1"));
  await settled();
  assert.deepEqual(requests.map(({ variables }) => variables.since), ["c0", "c1"]);
  requests[1].resolve(channels("c2"));
  await settled();
  assert.equal(requests.length, 2);
  workspaces.stop();
});

test("a list that is refused after a subscription has ended is no unhandled error", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { requests, sinks, workspaces } = open();
  sinks[0].error(new Error("left"));
  mock.timers.tick(2_000);
  requests[0].reject(Object.assign(new Error("refused"), { isRetryable: false }));
  await settled();
  workspaces.stop();
  mock.timers.reset();
});
