// The synchronisation of @confab/client (client/src/live/sync.ts) with a server that the test answers for: node --test sync.test.mjs
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const source = (path) => JSON.stringify(fileURLToPath(new URL(`../client/src/${path}`, import.meta.url)));
const text = `export * from ${source("store/store.ts")}; export * from ${source("live/sync.ts")};`;
const together = { name: "together", resolveId: (id) => (id.endsWith("/together") ? "together" : null), load: (id) => (id === "together" ? text : null) };
const [{ output }] = await build({ configFile: false, logLevel: "silent", plugins: [together], build: { write: false, minify: false, lib: { entry: "together", formats: ["es"] } } });
const { startSync, Store } = await import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);

const nothing = () => {};
const settled = () => new Promise((resolve) => setImmediate(resolve));
const session = (id, activeTs) => ({ id: `s_me_${id}`, conversation: { id, type: "PRIVATE" }, activeTs, writeTs: activeTs, writeSeq: 1, status: "ACTIVE", unreadCount: 1, subBiz: null });
const EMPTY = { OfflineQueue: { offlineMessages: { edges: [], pageInfo: { hasNextPage: false } } } };

/** A client whose first screen is loaded. */
async function open() {
  mock.timers.enable({ apis: ["setTimeout"] });
  const [requests, sinks] = [[], {}];
  const request = ({ name }, variables) =>
    name in EMPTY ? Promise.resolve(EMPTY[name]) : new Promise((resolve) => requests.push({ name, variables, resolve }));
  const subscribe = ({ name }, _, sink) => ((sinks[name] = sink), nothing);
  const connection = { api: { request, subscribe, now: Date.now }, ready: nothing, caughtUp: nothing };
  const workspaces = { follow: nothing, pullChannels: nothing };
  const store = new Store();
  const others = { typing: { started: nothing, stopped: nothing }, received: nothing, pinsChanged: nothing, liveEvent: nothing, signedIn: nothing };
  const sync = startSync({ connection: () => connection, me: "me", store, workspaces, ...others });
  /** Answers the oldest open request. */
  const answer = async (data) => {
    await settled();
    assert.ok(requests.length, "a request is open");
    const { name, resolve } = requests.shift();
    resolve({ [name[0].toLowerCase() + name.slice(1)]: data });
    await settled();
  };
  const tick = async () => (mock.timers.tick(50), settled());
  sync.loadScreen();
  await answer({ me: { id: "me" }, sessions: { edges: [] }, attention: { unread: 0 }, workspaces: [], cursor: "c0" });
  await tick();
  await answer({ sessions: [], cursor: "c1", hasMore: false, totalUnread: 0 });
  return {
    requests, answer, tick,
    total: () => store.listSessions({}).totalUnread,
    has: (id) => store.session(id) !== undefined,
    sessionEvent: (event) => sinks.SyncSession.next({ syncSession: { sessions: [], reason: "CATCH_UP", reset: false, hasMore: false, ...event } }),
    messageEvent: (event) => sinks.MessageEvents.next({ messageEvents: event }),
    close: () => (sync.stop(), mock.timers.reset()),
  };
}
const CAUGHT_UP = { __typename: "CaughtUp", cursor: "m1", reset: false };

test("the total is fetched again when an event with an older total overtakes its answer", async () => {
  const { answer, tick, total, sessionEvent, messageEvent, close } = await open();
  messageEvent(CAUGHT_UP);
  await tick();
  sessionEvent({ totalUnread: 1 });
  await answer({ sessions: [], cursor: "c2", hasMore: false, totalUnread: 2 });
  await tick();
  await answer({ sessions: [], cursor: "c2", hasMore: false, totalUnread: 2 });
  assert.equal(total(), 2);
  close();
});

test("a total does not replace that of a later request", async () => {
  const { requests, answer, tick, total, messageEvent, close } = await open();
  messageEvent(CAUGHT_UP);
  await tick();
  messageEvent(CAUGHT_UP);
  await tick();
  requests.reverse();
  await answer({ sessions: [], cursor: "c3", hasMore: false, totalUnread: 2 });
  await answer({ sessions: [], cursor: "c2", hasMore: false, totalUnread: 1 });
  assert.equal(total(), 2);
  close();
});

test("after a reset the whole list is fetched, also if an answer from before it arrives later", async () => {
  const { requests, answer, tick, has, sessionEvent, messageEvent, close } = await open();
  messageEvent(CAUGHT_UP);
  await tick();
  assert.equal(requests[0].variables.since, "c1");
  sessionEvent({ sessions: [session("kept", 5)], totalUnread: 1, reset: true });
  await answer({ sessions: [session("gone", 4)], cursor: "c2", hasMore: false, totalUnread: 2 });
  assert.equal(has("gone"), false);
  assert.equal(requests[0].variables.since, undefined);
  await answer({ sessions: [session("kept", 5), session("other", 3)], cursor: "c3", hasMore: false, totalUnread: 1 });
  assert.ok(has("kept") && has("other"));
  close();
});
