// Answers to queries that no event keeps up to date (demo/src/confab/answers.ts): node --test answers.test.mjs
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const entry = fileURLToPath(new URL("../demo/src/confab/answers.ts", import.meta.url));
const [{ output }] = await build({ configFile: false, logLevel: "silent", build: { write: false, minify: false, lib: { entry, formats: ["es"] } } });
const { openAnswers } = await import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);

const Members = { name: "Members", text: "" };
const Bans = { name: "Bans", text: "" };
const settled = () => new Promise((resolve) => setImmediate(resolve));
const lost = Object.assign(new Error("No answer"), { isRetryable: true });
const refused = Object.assign(new Error("Not for you"), { isRetryable: false });

/** Answers over an API whose responses the test gives. */
function open() {
  const requests = [];
  const listeners = new Set();
  let connected = true;
  const request = ({ name }, variables) => new Promise((resolve, reject) => requests.push({ name, variables, resolve, reject }));
  const isConnected = { get: () => connected, subscribe: (listener) => (listeners.add(listener), () => listeners.delete(listener)) };
  const answers = openAnswers({ api: { request }, isConnected });
  return {
    requests,
    answers,
    setConnected: (now) => ((connected = now), listeners.forEach((listener) => listener())),
    display: (operation, variables) => answers.of(operation, variables).subscribe(() => {}),
    shown: (operation, variables) => answers.of(operation, variables).get(),
    end: async (at, how, value) => (requests[at][how](value), settled()),
  };
}

test("a query is sent once for all that display it, and again when it appears later, with the last answer meanwhile", async () => {
  const { requests, display, shown, end } = open();
  assert.deepEqual(shown(Members, { id: "g" }), { isLoading: true });
  assert.equal(requests.length, 0);
  const ends = [display(Members, { id: "g" }), display(Members, { id: "g" })];
  assert.equal(requests.length, 1);
  await end(0, "resolve", "two members");
  assert.deepEqual(shown(Members, { id: "g" }), { data: "two members", isLoading: false });
  ends.forEach((stop) => stop());
  display(Members, { id: "g" });
  assert.equal(requests.length, 2);
  assert.equal(shown(Members, { id: "g" }).data, "two members");
  await end(1, "resolve", "three members");
  assert.equal(shown(Members, { id: "g" }).data, "three members");
});

test("the answer to an earlier request does not replace that to a later one", async () => {
  const { answers, display, shown, end } = open();
  display(Members, { id: "g" });
  answers.refresh(Members);
  await end(1, "resolve", "later");
  await end(0, "resolve", "earlier");
  assert.deepEqual(shown(Members, { id: "g" }), { data: "later", isLoading: false });
});

test("the result of a mutation replaces the answer, and no answer to an earlier request replaces it", async () => {
  const { answers, requests, display, shown, end } = open();
  answers.put(Bans, {}, "not displayed");
  display(Bans, {});
  assert.deepEqual(shown(Bans, {}), { isLoading: true });
  answers.put(Bans, {}, "one ban");
  assert.deepEqual(shown(Bans, {}), { data: "one ban", isLoading: false });
  await end(0, "resolve", "no bans");
  assert.equal(shown(Bans, {}).data, "one ban");
  answers.refresh(Bans);
  await end(1, "resolve", "two bans");
  assert.equal(shown(Bans, {}).data, "two bans");
  assert.equal(requests.length, 2);
});

test("a refresh sends displayed queries of this name again with all their variables, and no others", async () => {
  const { answers, requests, display, shown, end } = open();
  display(Members, { id: "g" });
  display(Members, { id: "h" });
  display(Bans, {});
  const hide = display(Members, { id: "hidden" });
  await end(3, "resolve", "old");
  hide();
  answers.refresh(Members);
  assert.deepEqual(requests.slice(4).map(({ name, variables }) => [name, variables.id]), [["Members", "g"], ["Members", "h"]]);
  assert.equal(shown(Members, { id: "hidden" }).data, undefined);
});

test("a refusal keeps the last answer, and the query is not sent again by itself", async () => {
  const { answers, requests, display, shown, end, setConnected } = open();
  display(Bans, {});
  await end(0, "resolve", "no bans");
  answers.refresh(Bans);
  await end(1, "reject", refused);
  assert.deepEqual(shown(Bans, {}), { data: "no bans", error: refused, isLoading: false });
  setConnected(false);
  setConnected(true);
  assert.equal(requests.length, 2);
});

test("a query without an answer is sent again when the network is back, if it is still displayed", async () => {
  const { requests, display, shown, end, setConnected } = open();
  setConnected(false);
  display(Members, { id: "g" });
  const hide = display(Members, { id: "h" });
  await end(0, "reject", lost);
  await end(1, "reject", lost);
  assert.equal(shown(Members, { id: "g" }).error, lost);
  hide();
  setConnected(true);
  assert.deepEqual(requests.slice(2).map(({ variables }) => variables.id), ["g"]);
  await end(2, "resolve", "two members");
  assert.deepEqual(shown(Members, { id: "g" }), { data: "two members", isLoading: false });
});

test("a request that fails while there is a connection is sent again a second later, until answers are stopped", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { answers, requests, display, end } = open();
  display(Members, { id: "g" });
  await end(0, "reject", lost);
  mock.timers.tick(1_000);
  assert.equal(requests.length, 2);
  await end(1, "reject", lost);
  answers.stop();
  mock.timers.tick(5_000);
  assert.equal(requests.length, 2);
  mock.timers.reset();
});
