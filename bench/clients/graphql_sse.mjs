// The public graphql-sse client in both of its modes against a running Confab:
//   node clients/graphql_sse.mjs http://127.0.0.1:8000/graphql ALICE_TOKEN BOB_TOKEN [MESSAGES]
// Connections go through a proxy of its own, which cuts all of them now and then. Checks that a subscriber who resumes from
// its last cursor sees each message once and in order; queries, mutations and errors; and, in single connection mode, that
// many subscriptions share one connection and end one by one. Ends with status 1 at the first thing that is wrong.
import assert from "node:assert/strict";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { NetworkError, createClient } from "graphql-sse";

const [url, aliceToken, bobToken, count = "200"] = process.argv.slice(2);
if (!bobToken) {
  console.error("usage: node clients/graphql_sse.mjs HTTP_URL ALICE_TOKEN BOB_TOKEN [MESSAGES]");
  process.exit(2);
}
const messages = Number(count);
const SHARED = 50;
const WAIT = 10_000;
const EVENTS = `subscription ($since: Cursor, $id: ID) { messageEvents(since: $since, conversationId: $id) { __typename
  ... on MessageCreated { cursor message { seq content } } ... on CaughtUp { cursor reset } } }`;
const SEND = `mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { seq conversationId } } }`;

const target = new URL(url);
const links = new Set();
const proxy = net.createServer((near) => {
  const far = net.connect(Number(target.port), target.hostname);
  const link = [near, far];
  links.add(link);
  for (const [from, to] of [[near, far], [far, near]]) {
    from.setNoDelay(true);
    from.on("data", (bytes) => to.write(bytes));
    from.on("error", () => {});
    from.on("close", () => { to.destroy(); links.delete(link); });
  }
});
await new Promise((resolve) => { proxy.listen(0, "127.0.0.1", resolve); });
const proxied = `http://127.0.0.1:${proxy.address().port}${target.pathname}`;
const cutAll = () => { for (const [near] of links) near.resetAndDestroy(); };

const client = (token, singleConnection, more = {}) => createClient({
  url: proxied,
  singleConnection,
  headers: () => ({ authorization: `Bearer ${token}` }),
  retryAttempts: 1000,
  retry: () => sleep(20),
  ...more,
});

const until = async (what, condition) => {
  const deadline = performance.now() + WAIT;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`not within ${WAIT} ms: ${what}`);
    await sleep(2);
  }
};

const results = async (from, query, variables) => {
  const all = [];
  for await (const result of from.iterate({ query, variables })) all.push(result);
  return all;
};

// A subscription that resumes: the client sends the request anew at each reconnect, with the cursor as it is by then.
const follow = (from) => {
  const seen = { events: [], caughtUp: 0, ended: null };
  const request = { query: EVENTS, variables: {} };
  seen.stop = from.subscribe(request, {
    next: ({ data, errors }) => {
      assert.equal(errors, undefined);
      const event = data.messageEvents;
      if (event.cursor) request.variables.since = event.cursor;
      if (event.__typename === "MessageCreated") seen.events.push(event.message);
      if (event.__typename === "CaughtUp") {
        assert.equal(event.reset, false);
        seen.caughtUp += 1;
      }
    },
    error: (error) => { seen.ended = error; },
    complete: () => { seen.ended = "complete"; },
  });
  return seen;
};

const send = async (from, content) => {
  const [{ data, errors }] = await results(from, SEND, { input: { toUserId: "alice", content } });
  assert.equal(errors, undefined);
  return data.sendMessage.message;
};

for (const single of [false, true]) {
  const mode = single ? "single connection" : "distinct connections";
  const alice = client(aliceToken, single);
  const bob = client(bobToken, single);

  assert.deepEqual(await results(alice, "{ me { id } }"), [{ data: { me: { id: "alice" } } }]);

  const live = follow(alice);
  await until("CaughtUp", () => live.caughtUp === 1);
  const sent = [];
  let cuts = 0;
  // Who sends is not cut off: whether a mutation was heeded is what idempotency keys are for.
  const direct = client(bobToken, single, { url });
  const started = performance.now();
  for (let i = 0; i < messages; i += 1) {
    sent.push(await send(direct, `${mode} ${i}`));
    if (i % 20 === 10) {
      cutAll();
      cuts += 1;
    }
  }
  await until("all messages", () => live.events.length >= messages);
  const took = performance.now() - started;
  await sleep(100);
  assert.deepEqual(live.events.map(({ seq }) => seq), sent.map(({ seq }) => seq));
  assert.equal(live.ended, null);
  console.log(`${mode}: ${messages} messages over ${cuts} cuts, each once and in order, ${(took / messages).toFixed(1)} ms each; caught up ${live.caughtUp} times`);

  const unknown = await results(alice, EVENTS, { id: "g_999" });
  assert.equal(unknown[0].errors[0].extensions.code, "NOT_FOUND");
  const impatient = client(aliceToken, single, { retryAttempts: 0 });
  if (single) {
    const refused = await results(impatient, "{ nonsense }").catch((error) => error);
    assert(refused instanceof NetworkError);
    assert.equal(refused.response.status, 400);
  } else {
    const [invalid] = await results(impatient, "{ nonsense }");
    assert.equal(invalid.errors[0].extensions.code, "INVALID_INPUT");
  }
  const nobody = await results(client("nonsense", single, { retryAttempts: 0 }), EVENTS).catch((error) => error);
  assert(nobody instanceof NetworkError);
  assert.equal(nobody.response.status, 401);
  live.stop();
  console.log(`${mode}: errors have their codes and statuses`);

  if (single) {
    const shared = Array.from({ length: SHARED }, () => follow(alice));
    await until("all to be caught up", () => shared.every(({ caughtUp }) => caughtUp === 1));
    await send(direct, "to all");
    await until("a message for each", () => shared.every(({ events }) => events.length === 1));
    for (const each of shared.slice(1)) each.stop();
    await sleep(200);
    await send(direct, "to the one that is left");
    await until("a message for one", () => shared[0].events.length === 2);
    assert(shared.slice(1).every(({ events }) => events.length === 1));
    shared[0].stop();
    await sleep(100);
    console.log(`${mode}: ${SHARED} subscriptions share a connection, and end one by one`);
  }
  for (const each of [alice, bob, direct, impatient]) each.dispose();
}
process.exit(0);
