// The order of answers and events in the demo's cache (demo/src/confab/answers.ts, cache.ts, pins.ts): node --test answers.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";
import { filter, makeSubject, merge, mergeMap, pipe, takeUntil } from "wonka";

const ENTRY = fileURLToPath(new URL("../demo/src/all-for-this-test.ts", import.meta.url));
const together = {
  name: "together",
  resolveId: (id) => (id === ENTRY ? id : null),
  load: (id) => (id === ENTRY ? `export { Client } from "@urql/core"; export * from "./gql"; export { cache } from "./confab/cache"; export { orderAnswers } from "./confab/answers";` : null),
};
const [{ output }] = await build({ configFile: false, logLevel: "silent", plugins: [together], build: { write: false, minify: false, lib: { entry: ENTRY, formats: ["es"] } } });
const code = output[0].code.replaceAll("process.env.NODE_ENV", '"production"');
const demo = await import(`data:text/javascript;base64,${Buffer.from(code).toString("base64")}`);

const WITH_BOB = "p_alice_bob";
const alice = { __typename: "User", id: "alice", displayName: "Alice Archer", avatarUrl: null, isBot: false };
const reaction = (emoji, count, viewerReacted = false) => ({ __typename: "Reaction", emoji, count, viewerReacted, firstAt: "2026-01-01T00:00:00.000Z", users: [] });
const message = (seq, more = {}) => ({
  __typename: "Message", id: `m${seq}`, conversationId: WITH_BOB, seq, contentType: "TEXT", content: `Message ${seq}`, state: "NORMAL", editCount: 0,
  createdAt: "2026-01-01T00:00:00.000Z", sender: alice, attachments: [], delivery: null, embeds: [], mentions: [], mentionsAll: false, replyTo: null,
  idempotencyKey: null, isFromBlocked: false, isPinned: false, systemEvent: null, thread: null, broadcastOf: null, reactions: [], ...more,
});
const page = (...nodes) => ({ __typename: "MessageConnection", edges: nodes.map((node) => ({ __typename: "MessageEdge", node })), pageInfo: { __typename: "PageInfo", hasPreviousPage: false, startCursor: null, hasNextPage: false, endCursor: null } });
const pins = (...nodes) => ({ ...page(...nodes), pageInfo: { __typename: "PageInfo", hasNextPage: false, endCursor: null } });

const settled = () => new Promise((resolve) => setTimeout(resolve, 5));

/** A client whose requests are answered by hand: `answer` takes the oldest open request with this field. */
function open() {
  const requests = [];
  const order = demo.orderAnswers();
  const server = () => (operations) => {
    const ends = (key) => pipe(operations, filter((each) => each.kind === "teardown" && each.key === key));
    return pipe(
      operations,
      filter(({ kind }) => kind !== "teardown"),
      mergeMap((operation) => {
        const { source, next } = makeSubject();
        requests.push({ operation, next });
        return pipe(merge([source]), takeUntil(ends(operation.key)));
      }),
    );
  };
  const client = new demo.Client({ url: "http://test.invalid", preferGetMethod: false, exchanges: [demo.cache("alice", order), order.exchange, server] });
  const nameOf = ({ operation }) => operation.query.definitions[0].name.value;
  return {
    client,
    open: () => requests.map(nameOf),
    answer: async (name, data) => {
      const found = requests.find((each) => nameOf(each) === name);
      assert.ok(found, `${name} was not asked; open: ${requests.map(nameOf)}`);
      if (found.operation.kind !== "subscription") requests.splice(requests.indexOf(found), 1);
      found.next({ operation: found.operation, data: structuredClone({ __typename: "Query", ...data }), stale: false, hasNext: found.operation.kind === "subscription" });
      await settled();
    },
    follow: () => client.subscription(demo.MessageEventsDocument, {}).subscribe(() => {}),
    watch: (document, variables) => {
      let last;
      client.query(document, variables).subscribe(({ data }) => (last = data ?? last));
      return () => last;
    },
  };
}

const changed = (reactions) => ({ __typename: "Subscription", messageEvents: { __typename: "ReactionsChanged", messageId: "m1", reactions, cursor: "c" } });
const pinned = (seq, isPinned) => ({ __typename: "Subscription", messageEvents: { __typename: "PinsChanged", message: message(seq, { isPinned }), cursor: "c" } });
const reactionsIn = (data) => data.messages.edges[0].node.reactions.map(({ emoji, count }) => `${emoji}${count}`).join(" ");
const seqsIn = (data) => data.pinnedMessages.edges.map(({ node }) => node.seq);

test("an answer to a request that began before an event does not replace the event's reactions", async () => {
  const { answer, follow, watch, client } = open();
  follow();
  const history = watch(demo.MessagesDocument, { conversationId: WITH_BOB });
  await answer("Messages", { messages: page(message(1)) });
  void client.query(demo.MessagesDocument, { conversationId: WITH_BOB }, { requestPolicy: "network-only" }).toPromise();
  await answer("MessageEvents", changed([reaction("👍", 2)]));
  assert.equal(reactionsIn(history()), "👍2");
  await answer("Messages", { messages: page(message(1, { reactions: [reaction("👍", 1)] })) });
  assert.equal(reactionsIn(history()), "👍2");
});

test("an answer to a request that began after an event replaces its reactions", async () => {
  const { answer, follow, watch, client } = open();
  follow();
  const history = watch(demo.MessagesDocument, { conversationId: WITH_BOB });
  await answer("Messages", { messages: page(message(1)) });
  await answer("MessageEvents", changed([reaction("👍", 2)]));
  void client.query(demo.MessagesDocument, { conversationId: WITH_BOB }, { requestPolicy: "network-only" }).toPromise();
  await answer("Messages", { messages: page(message(1, { reactions: [reaction("🎉", 1)] })) });
  assert.equal(reactionsIn(history()), "🎉1");
});

test("a history that is first loaded while an event arrives is complete", async () => {
  const { answer, follow, watch } = open();
  follow();
  const history = watch(demo.MessagesDocument, { conversationId: WITH_BOB });
  await answer("MessageEvents", changed([reaction("👍", 2)]));
  await answer("Messages", { messages: page(message(1, { reactions: [reaction("👍", 1)] })) });
  assert.equal(reactionsIn(history()), "👍2");
  assert.equal(history().messages.edges[0].node.isPinned, false);
});

test("one's own reaction stays displayed when an event overtakes its answer, and then the server is asked", async () => {
  const { answer, follow, watch, client, open: asked } = open();
  follow();
  const history = watch(demo.MessagesDocument, { conversationId: WITH_BOB });
  await answer("Messages", { messages: page(message(1)) });
  void client.mutation(demo.AddReactionDocument, { messageId: "m1", emoji: "👍" }).toPromise();
  await settled();
  assert.equal(reactionsIn(history()), "👍1");
  await answer("MessageEvents", changed([reaction("🎉", 1)]));
  await answer("AddReaction", { __typename: "Mutation", addReaction: { __typename: "Message", id: "m1", reactions: [reaction("👍", 1, true)] } });
  assert.equal(reactionsIn(history()), "🎉1 👍1");
  assert.ok(asked().includes("ReactionsNow"));
  await answer("ReactionsNow", { message: { __typename: "Message", id: "m1", reactions: [reaction("🎉", 1)] } });
  assert.equal(reactionsIn(history()), "🎉1");
});

test("without an event in between, the server is not asked again after one's own reaction", async () => {
  const { answer, follow, watch, client, open: asked } = open();
  follow();
  const history = watch(demo.MessagesDocument, { conversationId: WITH_BOB });
  await answer("Messages", { messages: page(message(1)) });
  void client.mutation(demo.AddReactionDocument, { messageId: "m1", emoji: "👍" }).toPromise();
  await answer("AddReaction", { __typename: "Mutation", addReaction: { __typename: "Message", id: "m1", reactions: [reaction("👍", 3, true)] } });
  assert.equal(reactionsIn(history()), "👍3");
  assert.deepEqual(asked(), ["MessageEvents"]);
});

test("the pin that came last is the first of the list, and what is unpinned leaves it", async () => {
  const { answer, follow, watch } = open();
  follow();
  const list = watch(demo.PinnedMessagesDocument, { conversationId: WITH_BOB });
  await answer("PinnedMessages", { pinnedMessages: pins(message(3, { isPinned: true }), message(1, { isPinned: true })) });
  await answer("MessageEvents", pinned(2, true));
  assert.deepEqual(seqsIn(list()), [2, 3, 1]);
  await answer("MessageEvents", pinned(3, false));
  assert.deepEqual(seqsIn(list()), [2, 1]);
  await answer("MessageEvents", pinned(1, true));
  assert.deepEqual(seqsIn(list()), [1, 2]);
  await answer("MessageEvents", pinned(3, true));
  assert.deepEqual(seqsIn(list()), [3, 1, 2]);
});

test("a pin that arrives while the list is loaded is in the list", async () => {
  const { answer, follow, watch } = open();
  follow();
  const list = watch(demo.PinnedMessagesDocument, { conversationId: WITH_BOB });
  await answer("MessageEvents", pinned(2, true));
  await answer("PinnedMessages", { pinnedMessages: pins(message(1, { isPinned: true })) });
  assert.deepEqual(seqsIn(list()), [2, 1]);
  await answer("MessageEvents", pinned(2, false));
  assert.deepEqual(seqsIn(list()), [1]);
});
