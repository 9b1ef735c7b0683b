// The state machine of a client's connection (client/src/connection/machine.ts): node --test machine.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const entry = fileURLToPath(new URL("../client/src/connection/machine.ts", import.meta.url));
const [{ output }] = await build({ configFile: false, logLevel: "silent", build: { write: false, minify: false, lib: { entry, formats: ["es"] } } });
const { IDLE_AFTER_MS, initialState, step } = await import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);

const STREAMS = ["sessions", "messages"];
const opened = { type: "opened" };
const acknowledged = (now = 0) => ({ type: "acknowledged", now });
const ready = { type: "ready", streams: STREAMS };
const caughtUp = (stream, reset = false) => ({ type: "caughtUp", stream, reset });
const closed = (code, reason = "", chance = 0.5) => ({ type: "closed", code, reason, chance });
const used = (now) => ({ type: "used", now });
const hidden = (now) => ({ type: "hidden", now });
const unused = (now) => ({ type: "unused", now });

/** The state after the events, the states on the way, and the actions of the last event. */
function after(...events) {
  const way = [];
  let state = initialState(0);
  let actions = [];
  for (const event of [{ type: "start" }, ...events]) {
    [state, actions] = step(state, event);
    if (way.at(-1) !== state.connection) way.push(state.connection);
  }
  return { state, way, actions, kinds: actions.map((each) => each.do) };
}

const CONNECTED = [opened, acknowledged(), ready];
const ACTIVE = [...CONNECTED, caughtUp("sessions"), caughtUp("messages")];

test("a client connects, identifies itself, gets its first screen, and is active when all streams have caught up", () => {
  assert.deepEqual(after(...ACTIVE).way, ["Connecting", "Authenticating", "Ready", "Active"]);
  assert.deepEqual(after().kinds, ["loadScreen"]);
  assert.deepEqual(after(opened).kinds, []);
  assert.equal(after(...CONNECTED, caughtUp("sessions")).state.connection, "Ready");
});

test("the first screen may be loaded before the connection is accepted", () => {
  for (const events of [[ready, opened], [opened, ready]]) {
    assert.equal(after(...events).state.connection, "Authenticating");
    assert.equal(after(...events, acknowledged()).state.connection, "Ready");
    assert.deepEqual(after(...events, acknowledged()).state.behind, STREAMS);
  }
});

test("a connection lost before the first screen begins again", () => {
  for (const events of [[], [opened], [opened, acknowledged()]]) {
    const { state, kinds } = after(...events, closed(1006));
    assert.deepEqual([state.connection, state.connected, kinds], ["Connecting", false, ["open"]]);
  }
  assert.equal(after(opened, acknowledged(), closed(1006), opened, acknowledged(), ready).state.connection, "Ready");
});

test("a connection lost after the first screen resumes until all streams have caught up, without another first screen", () => {
  const again = [closed(1006), opened, acknowledged(1)];
  assert.deepEqual(after(...ACTIVE, ...again).way.slice(3), ["Active", "Resuming"]);
  assert.ok(!after(...ACTIVE, ...again).kinds.includes("loadScreen"));
  assert.equal(after(...ACTIVE, ...again, caughtUp("messages")).state.connection, "Resuming");
  assert.equal(after(...ACTIVE, ...again, caughtUp("messages"), caughtUp("sessions")).state.connection, "Active");
  assert.equal(after(...CONNECTED, closed(1006)).state.connection, "Resuming");
});

test("a stream that caught up on the lost connection has to catch up again", () => {
  const half = [...CONNECTED, caughtUp("sessions"), closed(1006), opened, acknowledged(1), caughtUp("messages")];
  assert.deepEqual(after(...half).state.behind, ["sessions"]);
});

test("a reset falls back to Ready and loads the first screen again", () => {
  const resumed = [...ACTIVE, closed(1006), opened, acknowledged(1), caughtUp("sessions", true)];
  assert.deepEqual([after(...resumed).state.connection, after(...resumed).kinds], ["Ready", ["loadScreen"]]);
  assert.equal(after(...resumed, ready, caughtUp("messages")).state.connection, "Active");
  assert.deepEqual(after(...ACTIVE, caughtUp("messages", true)).kinds, ["loadScreen"]);
});

test("a first screen that arrives after the connection was lost is followed by the next connection", () => {
  const late = after(opened, acknowledged(), closed(1006), ready);
  assert.equal(late.state.connection, "Connecting");
  const next = after(opened, acknowledged(), closed(1006), ready, opened, acknowledged(1));
  assert.ok(!next.kinds.includes("loadScreen"));
  assert.deepEqual(next.state.behind, STREAMS);
});

test("a removed device is signed out and does not connect again", () => {
  const { state, kinds } = after(...ACTIVE, closed(4401, "Unauthorized"));
  assert.deepEqual([state.connection, kinds], ["Disconnected", ["signOut"]]);
  for (const event of [{ type: "networkBack" }, opened, acknowledged(), closed(1006), ready, caughtUp("messages")]) {
    const late = after(...ACTIVE, closed(4401), event);
    assert.deepEqual([late.state.connection, late.actions], ["Disconnected", []], event.type);
  }
});

for (const code of [4400, 4406, 4409, 4429, 4500, 1002, 1007, 1009, 1011]) {
  test(`code ${code} is final: the client starts over later, and does not repeat`, () => {
    const { state, kinds } = after(...ACTIVE, closed(code));
    assert.deepEqual([state.connection, kinds], ["Disconnected", ["startOver"]]);
  });
}

test("a refused or expired token is renewed before the next attempt", () => {
  assert.deepEqual(after(...ACTIVE, closed(4403, "Token expired")).kinds, ["renewToken", "open"]);
  assert.deepEqual(after(opened, closed(4403, "Forbidden")).kinds, ["renewToken", "open"]);
});

for (const code of [1000, 1001, 1005, 1006, 1012, 1013, 4408, 4499]) {
  test(`code ${code} is followed by another attempt`, () => {
    assert.deepEqual(after(...ACTIVE, closed(code)).kinds, ["open"]);
  });
}

test("a restarting server says when to reconnect", () => {
  const [open] = after(...ACTIVE, closed(1012, "Service restart, retry in 8250 ms")).actions;
  assert.equal(open.afterMs, 8250);
});

test("attempts become rarer until a connection is active, and chance spreads them", () => {
  const waits = [];
  const events = [...ACTIVE];
  for (let attempt = 0; attempt < 8; attempt += 1) {
    events.push(closed(1013));
    waits.push(after(...events).actions[0].afterMs);
    events.push(opened, acknowledged(attempt)); // Accepted, and ended before it is of use.
  }
  assert.deepEqual(waits, [300, 600, 1200, 2400, 4800, 9600, 10000, 10000]);
  const active = [...events, caughtUp("sessions"), caughtUp("messages")];
  assert.equal(after(...active, closed(1013)).actions[0].afterMs, 300);
  assert.equal(after(...active, closed(1013, "", 0)).actions[0].afterMs, 150);
  assert.equal(after(...active, closed(1013, "", 1)).actions[0].afterMs, 450);
});

test("the network's return ends a wait, and does nothing else", () => {
  const back = { type: "networkBack" };
  assert.deepEqual(after(...ACTIVE, closed(1006), back).actions, [{ do: "open", afterMs: 0 }]);
  assert.deepEqual(after(...ACTIVE, back).actions, []);
  assert.deepEqual(after(opened, closed(4500), back).actions, []);
});

test("signing out ends every state", () => {
  for (const events of [[], [opened], CONNECTED, ACTIVE, [...ACTIVE, closed(1006)]]) {
    const { state, actions } = after(...events, { type: "signedOut" });
    assert.deepEqual([state.connection, state.connected, actions], ["Disconnected", false, []]);
  }
});

test("five minutes without use are idle, reported once, and the next use is reported at once", () => {
  const idle = after(...ACTIVE, used(1_000), unused(1_000 + IDLE_AFTER_MS));
  assert.deepEqual([idle.state.user, idle.actions], ["Idle", [{ do: "report", active: false }]]);
  assert.deepEqual(after(...ACTIVE, unused(IDLE_AFTER_MS), unused(IDLE_AFTER_MS + 1)).kinds, []);
  const back = after(...ACTIVE, unused(IDLE_AFTER_MS), used(IDLE_AFTER_MS + 5));
  assert.deepEqual([back.state.user, back.actions[0]], ["Online", { do: "report", active: true }]);
});

test("a check before its time is repeated when it is due", () => {
  const { state, actions } = after(...ACTIVE, used(60_000), unused(IDLE_AFTER_MS));
  assert.deepEqual([state.user, actions], ["Online", [{ do: "checkUse", at: 60_000 + IDLE_AFTER_MS }]]);
});

test("continuous use is reported at most once a minute", () => {
  const times = Array.from({ length: 180 }, (_, second) => used(second * 1000));
  let reports = 0;
  times.forEach((_, index) => (reports += after(...ACTIVE, ...times.slice(0, index + 1)).kinds.filter((each) => each === "report").length));
  assert.equal(reports, 2);
});

test("a hidden page is Away at once, is reported when it was not used for five minutes, and is back when it is visible", () => {
  const away = after(...ACTIVE, used(10_000), hidden(20_000));
  assert.deepEqual([away.state.user, away.actions], ["Away", [{ do: "checkUse", at: 10_000 + IDLE_AFTER_MS }]]);
  const later = after(...ACTIVE, hidden(0), unused(IDLE_AFTER_MS));
  assert.deepEqual([later.state.user, later.kinds], ["Away", ["report"]]);
  assert.equal(after(...ACTIVE, hidden(0), used(5)).state.user, "Online");
});

test("nothing is reported without a connection, and a connection of an unused device is reported as unused", () => {
  const lost = [...ACTIVE, closed(1006), unused(IDLE_AFTER_MS)];
  assert.deepEqual(after(...lost).actions, []);
  const back = after(...lost, opened, acknowledged(IDLE_AFTER_MS + 10));
  assert.deepEqual(back.actions, [{ do: "report", active: false }]);
  assert.ok(!after(...ACTIVE, closed(1006), opened, acknowledged(10)).kinds.includes("report"));
});

test("no event makes a step fail, and a second wait never runs next to the first", () => {
  const events = [opened, acknowledged(5), ready, caughtUp("sessions"), caughtUp("messages", true), closed(1006), closed(4403), used(1), hidden(2), unused(9e9), { type: "networkBack" }];
  let seed = 7;
  const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
  let state = initialState(0);
  for (let index = 0; index < 5000; index += 1) {
    const [next, actions] = step(state, events[random(events.length)]);
    assert.ok(actions.filter((each) => each.do === "open").length <= 1);
    if (next.connection === "Active") assert.ok(next.connected && next.behind.length === 0);
    if (next.connection === "Resuming") assert.ok(next.streams.length > 0);
    state = next;
  }
});
