// The store of @confab/client (client/src/store/store.ts) against a server that is a list of changes: node --test store.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const entry = fileURLToPath(new URL("../client/src/store/store.ts", import.meta.url));
const [{ output }] = await build({ configFile: false, logLevel: "silent", build: { write: false, minify: false, lib: { entry, formats: ["es"] } } });
const { Store } = await import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);

/** Numbers from 0 to 1 that are the same for the same seed. */
function randomFrom(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const message = () => ({
  id: "m1", conversationId: "c", seq: 1, content: "0", editCount: 0, state: "NORMAL", reactions: 0, isPinned: false, thread: null, sender: { id: "me" },
  delivery: { status: "SENT", recipientCount: 3, deliveredCount: 0, readCount: 0 },
});

/** Answers and events arrive in any order, except that events arrive in their own. */
function walk(seed) {
  const random = randomFrom(seed);
  const pick = (list) => list[Math.floor(random() * list.length)];
  const store = new Store();
  let server = message();
  let session = { conversation: { id: "c" }, activeTs: 1, writeSeq: 1, peerReadSeq: 0, peerDeliveredSeq: 0, unreadCount: 0 };
  store.applyMessages([server], store.eventCount());
  const events = [];
  const requests = []; // { requestedAt, answer }: the server reads at some time after the request began
  const steps = {
    edit() {
      if (server.state === "RECALLED" || random() > 0.3) return;
      server = { ...server, editCount: server.editCount + 1, content: String(server.editCount + 1) };
      const event = server;
      events.push(() => store.applyMessages([event]));
    },
    recall() {
      if (random() > 0.2) return;
      server = { ...server, state: "RECALLED", content: null };
      const event = server;
      events.push(() => store.applyMessages([event]));
    },
    react() {
      server = { ...server, reactions: server.reactions + 1 };
      const { reactions } = server;
      events.push(() => store.patchMessage("m1", { reactions }));
    },
    pin() {
      server = { ...server, isPinned: !server.isPinned };
      const { isPinned } = server;
      events.push(() => store.patchMessage("m1", { isPinned }));
    },
    reply() {
      const replies = (server.thread?.replyCount ?? 0) + pick([1, 1, -1]);
      server = { ...server, thread: { replyCount: Math.max(0, replies) } };
      const { thread } = server;
      events.push(() => store.patchMessage("m1", { thread }));
    },
    receive() {
      const deliveredCount = Math.min(3, server.delivery.deliveredCount + 1);
      server = { ...server, delivery: { ...server.delivery, deliveredCount, status: deliveredCount === 3 ? "DELIVERED" : "SENT" } };
      const { delivery } = server;
      events.push(() => store.applyDelivery("c", [{ id: "m1", delivery }]));
    },
    changeSession() {
      session = { ...session, activeTs: session.activeTs + 1, unreadCount: Math.floor(random() * 5) };
      const event = session;
      events.push(() => store.applySessions([event]));
    },
    ask: () => void requests.push({ requestedAt: store.eventCount() }),
    read() {
      const request = pick(requests.filter(({ answer }) => !answer));
      if (request) request.answer = { message: server, session };
    },
    answer() {
      const ready = requests.filter(({ answer }) => answer);
      const request = pick(ready);
      if (!request) return;
      requests.splice(requests.indexOf(request), 1);
      store.applyMessages([request.answer.message], request.requestedAt);
      store.applySessions([request.answer.session]);
    },
    deliver: () => events.shift()?.(),
  };
  const before = () => store.message("m1");
  for (let count = 0; count < 80; count += 1) {
    const { editCount, state } = before();
    steps[pick(Object.keys(steps))]();
    const now = before();
    assert.ok(now.state === "RECALLED" || (state !== "RECALLED" && now.editCount >= editCount), `seed ${seed}: it became older`);
  }
  while (requests.some(({ answer }) => !answer)) steps.read();
  const share = pick([0.2, 0.9, 0.99]); // Answers may be much later than events.
  while (events.length || requests.length) (random() < share ? steps.deliver : steps.answer)();
  assert.deepEqual(store.message("m1"), server, `seed ${seed}`);
  if (session.activeTs > 1) assert.deepEqual(store.session("c"), session, `seed ${seed}`);
}

test("older data never replaces newer data, and nothing is lost: 3,000 random orders", () => {
  for (let seed = 1; seed <= 3000; seed += 1) walk(seed);
});

test("a change that the server refuses is taken back, unless something else has changed the session meanwhile", () => {
  const store = new Store();
  const session = { conversation: { id: "c" }, activeTs: 1, writeSeq: 1, peerReadSeq: null, peerDeliveredSeq: null, unreadCount: 3 };
  store.applySessions([session]);
  const undo = store.patchSession("c", { unreadCount: 0 });
  assert.equal(store.session("c").unreadCount, 0);
  undo();
  assert.equal(store.session("c").unreadCount, 3);
  const late = store.patchSession("c", { unreadCount: 0 });
  store.applySessions([{ ...session, activeTs: 2, unreadCount: 1 }]);
  late();
  assert.equal(store.session("c").unreadCount, 1);
});

test("a view gives the same object until something changes", () => {
  const store = new Store();
  let calls = 0;
  const stop = store.topics.on("history c", () => (calls += 1));
  store.applyMessages([message()], store.eventCount());
  assert.equal(calls, 1);
  assert.equal(store.message("m1"), store.message("m1"));
  stop();
  store.patchMessage("m1", { isPinned: true });
  assert.equal(calls, 1);
});

test("two changes that the server refuses are both taken back, whatever else has changed", () => {
  const store = new Store();
  store.applySessions([{ conversation: { id: "c" }, activeTs: 1, writeSeq: 1, peerReadSeq: 1, peerDeliveredSeq: 1, priority: 0, muteStatus: false }]);
  const first = store.patchSession("c", { priority: 1 });
  const second = store.patchSession("c", { muteStatus: true });
  store.patchSession("c", { peerReadSeq: 2 });
  first();
  second();
  const { priority, muteStatus, peerReadSeq } = store.session("c");
  assert.deepEqual([priority, muteStatus, peerReadSeq], [0, false, 2]);
});
