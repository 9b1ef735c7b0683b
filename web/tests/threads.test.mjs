// Threads of the demo without a page: their addresses, and what its cache keeps of them. node --test threads.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const src = (file) => JSON.stringify(fileURLToPath(new URL(`../demo/src/${file}`, import.meta.url)));
const ENTRY = `
  export { isDisplayed, pathTo } from ${src("ui/route.ts")};
  export { orderAnswers } from ${src("confab/answers.ts")};
  export { cache } from ${src("confab/cache.ts")};
  export { MessagesDocument, MessageEventsDocument, SessionsDocument, ThreadDocument } from ${src("gql.ts")};
  export { Client } from "@urql/core";
  export { filter, make, mergeMap, pipe } from "wonka";
`;
const entry = fileURLToPath(new URL("../demo/entry.js", import.meta.url));
const plugins = [{ name: "entry", enforce: "pre", resolveId: (id) => (id === entry ? id : null), load: (id) => (id === entry ? ENTRY : null) }];
const [{ output }] = await build({ configFile: false, logLevel: "silent", plugins, build: { write: false, minify: false, lib: { entry, formats: ["es"] } } });
const { isDisplayed, pathTo, cache, orderAnswers, MessagesDocument, MessageEventsDocument, SessionsDocument, ThreadDocument, Client, filter, make, mergeMap, pipe } = await import(
  `data:text/javascript,${encodeURIComponent(output[0].code)}`
);

test("the address of a thread names its conversation, and may name a reply", () => {
  assert.equal(pathTo({ workspaceId: "w_1", conversationId: "c_1", threadSeq: 7 }), "#/w/w_1/c/c_1/t/7");
  assert.equal(pathTo({ conversationId: "g_1", threadSeq: 7, seq: 2 }), "#/c/g_1/t/7/2");
  assert.equal(pathTo({ workspaceId: "w_1", threads: true }), "#/w/w_1/threads");
});

test("the id of a thread leads to the thread next to its conversation", () => {
  assert.equal(pathTo({ subBiz: "shop", conversationId: "t_12_p_alice_user%5F2~shop", seq: 3 }), "#/b/shop/c/p_alice_user%5F2~shop/t/12/3");
  for (const hash of ["#/c/g_1/t/7", "#/c/g_1/t/7/2", "#/c/t_7_g_1", "#/c/t_7_g_1/2", "#/w/w_1/c/g_1/t/7"]) {
    globalThis.location = { hash };
    assert.deepEqual(["g_1", "t_7_g_1", "t_2_g_1", "t_7_g_2"].map(isDisplayed), [true, true, false, false], hash);
  }
  globalThis.location = { hash: "#/c/g_1/7" };
  assert.deepEqual(["g_1", "t_7_g_1"].map(isDisplayed), [true, false]);
});

const user = (id) => ({ __typename: "User", id, displayName: id, avatarUrl: null, isBot: false });

const thread = (replyCount, minute, more = {}) => ({
  __typename: "Thread", id: "t_1_g", title: "Soup?", replyCount, participants: [user("bob")], lastReplyAt: `2026-11-03T10:0${minute}:00.000Z`, isLocked: false, ...more,
});

const message = (conversationId, seq, its = null, more = {}) => ({
  __typename: "Message", id: `m_${conversationId}_${seq}`, conversationId, seq, contentType: "TEXT", content: `Message ${seq}`, state: "NORMAL", editCount: 0,
  createdAt: "2026-11-03T10:00:00.000Z", sender: user("bob"), attachments: [], delivery: null, embeds: [], mentions: [], mentionsAll: false, replyTo: null,
  idempotencyKey: null, isFromBlocked: false, isPinned: false, systemEvent: null, thread: its, broadcastOf: null, reactions: [], ...more,
});

const session = (conversation, writeTs, more = {}) => ({
  __typename: "Session", id: `s_alice_${conversation.id}`, conversation, lastMessage: null, writeSeq: 1, readSeq: 0, readCount: 0, deliveredSeq: 1, unreadCount: 1,
  unreadMentionCount: 0, unreadStatus: false, muteStatus: false, mutedUntil: null, notifications: "ALL", priority: 0, categoryId: null, subBiz: null,
  status: "ACTIVE", activeTs: writeTs, writeTs, peerDeliveredSeq: null, peerReadSeq: null, ...more,
});

const history = (...messages) => ({
  __typename: "MessageConnection",
  edges: messages.map((node) => ({ __typename: "MessageEdge", node })),
  pageInfo: { __typename: "PageInfo", hasPreviousPage: false, startCursor: null, hasNextPage: false, endCursor: null },
});

const list = (...sessions) => ({
  __typename: "SessionConnection", edges: sessions.map((node) => ({ __typename: "SessionEdge", node })), totalUnread: 0, cursor: "1",
  pageInfo: { __typename: "PageInfo", hasNextPage: false, endCursor: null },
});

/** The demo's cache in front of a server that answers with `data`, which the test changes, and sends `event`s. */
function openClient() {
  const server = { data: {}, asked: 0, send: () => {} };
  const answers = () => (operations) =>
    pipe(
      operations,
      filter(({ kind }) => kind !== "teardown"),
      mergeMap((operation) =>
        make(({ next }) => {
          const answer = (data) => next({ operation, data: structuredClone(data), stale: false, hasNext: operation.kind === "subscription" });
          if (operation.kind === "subscription") server.send = (event) => answer({ messageEvents: event });
          else (server.asked += 1), answer(server.data);
          return () => {};
        }),
      ),
    );
  const order = orderAnswers();
  const client = new Client({ url: "http://server", exchanges: [cache("alice", order), order.exchange, answers], preferGetMethod: false });
  client.subscription(MessageEventsDocument, {}).subscribe(() => {});
  const query = async (document, variables, data, requestPolicy = "cache-first") => {
    server.data = { __typename: "Query", ...data };
    return (await client.query(document, variables, { requestPolicy }).toPromise()).data;
  };
  return { server, client, query };
}

const shownThread = (data) => data.messages.edges.find(({ node }) => node.seq === 1).node.thread;

test("a message gets its thread with the first event of it, and an older answer does not take it away", async () => {
  const { server, query } = openClient();
  const group = { conversationId: "g" };
  assert.equal(shownThread(await query(MessagesDocument, group, { messages: history(message("g", 1)) })), null);
  server.send({ __typename: "ThreadChanged", parentId: "m_g_1", thread: thread(1, 1), cursor: "1" });
  assert.equal(shownThread(await query(MessagesDocument, group, {})).replyCount, 1);
  const older = { messages: history(message("g", 1)) };
  assert.equal(shownThread(await query(MessagesDocument, group, older, "network-only")).replyCount, 1);
});

test("an answer from before the latest reply does not lower the number of replies, but a recall does", async () => {
  const { server, query } = openClient();
  const group = { conversationId: "g" };
  await query(MessagesDocument, group, { messages: history(message("g", 1, thread(3, 3))) });
  const older = { messages: history(message("g", 1, thread(2, 2))) };
  assert.equal(shownThread(await query(MessagesDocument, group, older, "network-only")).replyCount, 3);
  server.send({ __typename: "ThreadChanged", parentId: "m_g_1", thread: thread(2, 3), cursor: "1" });
  assert.equal(shownThread(await query(MessagesDocument, group, {})).replyCount, 2);
});

test("a thread and its history that did not exist are asked for again after its first reply", async () => {
  const { server, query } = openClient();
  assert.equal((await query(ThreadDocument, { id: "t_1_g" }, { thread: null })).thread, null);
  assert.equal((await query(MessagesDocument, { conversationId: "t_1_g" }, { messages: null })).messages, null);
  server.send({ __typename: "ThreadChanged", parentId: "m_g_1", thread: thread(1, 1), cursor: "1" });
  const found = thread(1, 1, { rev: 5, parent: message("g", 1, thread(1, 1)) });
  assert.equal((await query(ThreadDocument, { id: "t_1_g" }, { thread: found })).thread.parent.seq, 1);
  assert.equal((await query(MessagesDocument, { conversationId: "t_1_g" }, { messages: history(message("t_1_g", 1)) })).messages.edges.length, 1);
  const { asked } = server;
  await query(ThreadDocument, { id: "t_1_g" }, {});
  assert.equal(server.asked, asked);
});

test("followed threads are a list of their own, and their gateway is in no list", async () => {
  const { query } = openClient();
  const group = { __typename: "Group", id: "g", type: "GROUP", title: "Cooks", memberCount: 2, viewerRole: "MEMBER", status: "ACTIVE", avatarUrl: null };
  const gateway = { __typename: "SubBizGateway", id: "b_@threads", type: "SUB_BIZ", title: "@threads", subBiz: "@threads" };
  const its = { ...thread(1, 1), type: "THREAD", parent: message("g", 1) };
  const titles = ({ sessions }) => sessions.edges.map(({ node }) => node.conversation.title);
  assert.deepEqual(titles(await query(SessionsDocument, {}, { sessions: list(session(gateway, 9), session(group, 8)) })), ["Cooks"]);
  const threads = { sessions: list(session(its, 9, { subBiz: "@threads" })) };
  assert.deepEqual(titles(await query(SessionsDocument, { subBiz: "@threads" }, threads)), ["Soup?"]);
  assert.deepEqual(titles(await query(SessionsDocument, {}, {})), ["Cooks"]);
  const unfollowed = { sessions: list(session(its, 10, { subBiz: null, status: "INVALID" })) };
  assert.deepEqual(titles(await query(SessionsDocument, { subBiz: "@threads" }, unfollowed, "network-only")), []);
});
