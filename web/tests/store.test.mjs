// The store and the histories of @confab/client (client/src/store, client/src/messages/history.ts) against a server that is a list of changes: node --test store.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const source = (path) => JSON.stringify(fileURLToPath(new URL(`../client/src/${path}`, import.meta.url)));
const text = `export * from ${source("store/store.ts")}; export * from ${source("messages/history.ts")};`;
const together = { name: "together", resolveId: (id) => (id.endsWith("/together") ? "together" : null), load: (id) => (id === "together" ? text : null) };
const [{ output }] = await build({ configFile: false, logLevel: "silent", plugins: [together], build: { write: false, minify: false, lib: { entry: "together", formats: ["es"] } } });
const { openHistory, Store } = await import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);

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
  id: "m1", conversationId: "c", seq: 1, content: "0", editCount: 0, state: "NORMAL", reactions: 0, isPinned: false, isFromBlocked: false, thread: null, sender: { id: "me" },
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

test("a change that the server refuses is undone, unless something else has changed the session meanwhile", () => {
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

test("two changes that the server refuses are both undone, also if other fields have changed", () => {
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

const turn = () => new Promise((resolve) => { setImmediate(resolve); });

/** A conversation of a server: its answers are late, and its events are in order. */
function conversation(random, count) {
  const pick = (most) => Math.floor(random() * most);
  const store = new Store();
  const all = [];
  const events = [];
  const answers = [];
  const write = () => {
    const seq = (all.at(-1)?.seq ?? 0) + 1 + pick(2);
    all.push({ ...message(), id: `m${seq}`, seq });
    return all.at(-1);
  };
  for (let made = 0; made < count; made += 1) write();
  const indexOf = (seq) => all.findIndex((each) => each.seq >= Number(seq));
  const request = (_operation, { first, after, last, before, aroundSeq }) => {
    const middle = aroundSeq === undefined ? -1 : indexOf(aroundSeq) < 0 ? all.length : indexOf(aroundSeq);
    const to = middle >= 0 ? middle + (first >> 1) : after ? indexOf(after) + 1 + first : before ? indexOf(before) : all.length;
    const from = middle >= 0 ? middle - (first >> 1) : after ? indexOf(after) + 1 : to - last;
    const found = all.slice(Math.max(0, from), Math.max(0, to));
    const pageInfo = { hasPreviousPage: from > 0, startCursor: found[0] && String(found[0].seq), hasNextPage: to < all.length, endCursor: found.length ? String(found.at(-1).seq) : null };
    return new Promise((resolve) => answers.push(() => resolve({ messages: { edges: found.map((node) => ({ node })), pageInfo } })));
  };
  const history = openHistory("c", null, { store, api: { request }, watch: () => () => {}, live: async () => {}, pending: () => [] });
  return {
    store, all, history, pick, answers,
    write: () => {
      const written = write();
      events.push(() => store.addLiveMessage(written));
    },
    deliver: () => events.shift()?.(),
    /** Answers everything, until the act is done. */
    settled: async (act) => {
      let isDone = false;
      const done = act().finally(() => (isDone = true));
      for (let turns = 0; !isDone; turns += 1) {
        assert.ok(turns < 1_000, "it never ends");
        answers.splice(pick(answers.length), 1)[0]?.();
        await turn();
      }
      return done;
    },
  };
}

async function page(seed) {
  const random = randomFrom(seed);
  const { store, all, history, pick, write, deliver, settled } = conversation(random, 700);
  const MOST = 350;
  const check = () => {
    const { messages, hasOlder, hasNewer, status } = history.get();
    if (status !== "ready") return assert.equal(messages.length, 0);
    const from = all.findIndex(({ id }) => id === messages[0]?.id);
    assert.deepEqual(messages.map(({ id }) => id), all.slice(from, from + messages.length).map(({ id }) => id), `a gap, seed ${seed}`);
    assert.ok(messages.length <= MOST, `${messages.length} messages, seed ${seed}`);
    if (!hasOlder) assert.equal(from, 0, `older messages are hidden, seed ${seed}`);
    // The latest events may be on their way.
    if (!hasNewer) assert.ok(all.indexOf(messages.at(-1)) >= delivered - 1 || from + messages.length >= delivered, `newer messages are hidden, seed ${seed}`);
  };
  let delivered = all.length;
  const live = (count) => {
    for (let n = 0; n < count; n += 1) {
      write();
      delivered += 1;
      deliver();
    }
  };
  let failure;
  const stop = history.subscribe(() => {
    try {
      check();
    } catch (error) {
      failure ??= error;
    }
  });
  await settled(async () => { while (history.get().status !== "ready") await turn(); });
  for (let step = 0; step < 12; step += 1) {
    const act = pick(5);
    const seen = new Set(history.get().messages.map(({ id }) => id));
    const { hasOlder, hasNewer, messages } = history.get();
    const moving = settled(() => [history.loadOlder, history.loadNewer, () => history.jumpTo(1 + pick(all.length)), () => history.jumpTo(null), turn][act]());
    live(pick(4) ? pick(10) : pick(200));
    await moving;
    check();
    if (failure) throw failure;
    const now = history.get().messages.map(({ id }) => id);
    if (act === 0 && hasOlder) assert.ok(now.some((id) => !seen.has(id)), `nothing older, seed ${seed}`);
    if (act === 1 && hasNewer) assert.ok(now.some((id) => !seen.has(id)), `nothing newer, seed ${seed}`);
    if (act === 0) assert.ok(now.includes(messages[0].id), `the messages on the screen are gone, seed ${seed}`);
    store.removeUnused();
  }
  const walked = new Set();
  const see = () => history.get().messages.forEach(({ id }) => walked.add(id));
  for (const [edge, move] of [["hasNewer", history.loadNewer], ["hasOlder", history.loadOlder], ["hasNewer", history.loadNewer]]) {
    walked.clear();
    for (see(); history.get()[edge]; see()) await settled(move);
  }
  assert.equal(walked.size, all.length, `seed ${seed}`);
  assert.equal(history.get().messages.at(-1), store.message(all.at(-1).id));
  live(20);
  assert.equal(history.get().messages.at(-1).id, all.at(-1).id, `the end does not follow, seed ${seed}`);
  store.removeUnused();
  store.removeUnused();
  assert.ok(all.filter(({ id }) => store.message(id)).length <= MOST + 50, `too much stays, seed ${seed}`);
  stop();
  store.removeUnused();
  store.removeUnused();
  assert.ok(all.filter(({ id }) => store.message(id)).length <= 50, `too much stays after closing, seed ${seed}`);
}

test("a history is bounded, without a gap, and every part of it can be loaded again, while messages arrive", async () => {
  for (let seed = 1; seed <= 40; seed += 1) await page(seed);
});

test("messages displayed outside histories stay, and unused ones are removed the second time", () => {
  const store = new Store();
  store.applyMessages([message(), { ...message(), id: "m2" }], store.eventCount());
  const keeper = () => ["m2"];
  store.keepers.add(keeper);
  store.removeUnused();
  assert.ok(store.message("m1"));
  store.removeUnused();
  assert.deepEqual([store.message("m1"), store.message("m2")?.id], [undefined, "m2"]);
});

test("of the histories that are not displayed, those opened last keep their newest messages", () => {
  const store = new Store();
  for (let n = 0; n < 40; n += 1) {
    const own = { ...message(), id: `m${n}`, conversationId: `c${n}` };
    store.applyPage(`c${n}`, [own], { hasPreviousPage: false, hasNextPage: false }, { newest: true }, store.eventCount());
    store.closeHistory(`c${n}`);
  }
  store.removeUnused();
  store.removeUnused();
  assert.deepEqual(Array.from({ length: 40 }, (_, n) => n).filter((n) => store.message(`m${n}`)), Array.from({ length: 30 }, (_, n) => n + 10));
});

test("a message stays from a blocked user when an older answer arrives", () => {
  const store = new Store();
  const requestedAt = store.eventCount();
  const other = { ...message(), sender: { id: "other" }, isFromBlocked: false };
  store.applyMessages([other], requestedAt);
  store.setBlocked("other", true);
  assert.equal(store.message("m1").isFromBlocked, true);
  store.applyMessages([other], requestedAt);
  assert.equal(store.message("m1").isFromBlocked, true);
  store.applyMessages([other], store.eventCount());
  assert.equal(store.message("m1").isFromBlocked, false);
});

test("a receipt that covers a session's last message sets its delivery state; older answers do not undo this", () => {
  const store = new Store();
  const { delivery, ...last } = message();
  const answer = [{ conversation: { id: "c", type: "PRIVATE" }, activeTs: 1, writeSeq: 2, lastMessage: { ...last, seq: 2, delivery: { ...delivery, recipientCount: 1 } } }];
  const deliveryOf = () => store.session("c").lastMessage.delivery;
  store.applySessions(answer);
  store.applyReceipt("c", "me", "READ", 1);
  assert.equal(deliveryOf().status, "SENT");
  store.applyReceipt("c", "other", "READ", 2);
  assert.equal(deliveryOf().status, "SENT");
  store.applyReceipt("c", "me", "READ", 2);
  const before = store.session("c");
  store.applyReceipt("c", "me", "DELIVERED", 2);
  assert.equal(store.session("c"), before);
  store.applySessions(answer);
  assert.deepEqual(deliveryOf(), { status: "READ", recipientCount: 1, deliveredCount: 1, readCount: 1 });
});

test("a new delivery state of a group's message changes the last message of its session", () => {
  const store = new Store();
  const last = message();
  store.applySessions([{ conversation: { id: "c", type: "GROUP" }, activeTs: 1, writeSeq: 1, lastMessage: last }]);
  store.applyDelivery("c", [{ id: "m0", delivery: { ...last.delivery, deliveredCount: 2 } }]);
  assert.equal(store.session("c").lastMessage.delivery.deliveredCount, 0);
  store.applyDelivery("c", [{ id: "m1", delivery: { ...last.delivery, deliveredCount: 1 } }]);
  assert.equal(store.session("c").lastMessage.delivery.deliveredCount, 1);
});
