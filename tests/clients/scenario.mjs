// The scenario for each client of the guide against a real server: show the list, keep it up to date, lose nothing, send once.
import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import net from "node:net";
import WebSocket from "ws";
import { Chat } from "../docs/clients/chat.mjs";
import { privateConversationId } from "../docs/clients/ids.mjs";
import { MESSAGE_EVENTS } from "../docs/clients/operations.mjs";
import { openSocket } from "../docs/clients/socket.mjs";
import { tryWholeChat } from "./whole_chat.mjs";

const { CONFAB_URL, CONFAB_SECRET } = process.env;
const PATIENCE = 60_000;
const WHOLE_CHAT = process.env.CONFAB_TEST_LONG === "1" || process.argv[1].endsWith("apollo.mjs");
export const server = CONFAB_URL;
export const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

const base64url = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

export function jwt(user, seconds = 3600) {
  const now = Math.floor(Date.now() / 1000);
  const signed = `${base64url({ alg: "HS256", typ: "JWT" })}.${base64url({ sub: user, iat: now, exp: now + seconds })}`;
  return `${signed}.${createHmac("sha256", CONFAB_SECRET).update(signed).digest("base64url")}`;
}

export async function until(what, condition) {
  for (const end = Date.now() + PATIENCE; ; ) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await sleep(20);
  }
}

// Node.js 20 has no WebSocket of its own.
export const quickSocket = ({ url, token }) => noting(openSocket({ url, token, webSocketImpl: WebSocket, retryWait: () => sleep(20) }));

const untouched = globalThis.fetch;

// Another user, who calls the server directly.
export class Person {
  constructor(name) {
    this.name = `${name}-${randomUUID().slice(0, 8)}`;
  }

  async ask(query, variables) {
    const response = await untouched(server, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${jwt(this.name)}` },
      body: JSON.stringify({ query, variables }),
    });
    const { data, errors } = await response.json();
    // A busy machine refuses some requests before it executes anything.
    if (errors?.every(({ extensions }) => extensions.retryable)) {
      await sleep(100);
      return this.ask(query, variables);
    }
    assert.equal(errors, undefined, JSON.stringify(errors));
    return data;
  }

  async send(toUserId, content) {
    const query = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id seq conversationId } } }";
    return (await this.ask(query, { input: { toUserId, content } })).sendMessage.message;
  }

  // Returns an array that grows with the events of this user.
  listen() {
    const heard = [];
    const socket = openSocket({ url: server, token: async () => jwt(this.name), webSocketImpl: WebSocket });
    socket.subscribe({ query: MESSAGE_EVENTS }, { next: ({ data }) => heard.push(data.messageEvents), error() {}, complete() {} });
    return heard;
  }

  async contents(conversationId) {
    const query = "query ($id: ID!) { messages(conversationId: $id, first: 100) { edges { node { content } } } }";
    return (await this.ask(query, { id: conversationId })).messages.edges.map(({ node }) => node.content);
  }
}

// A proxy that can be cut: its connections can be made again, but not while it is `away`. While it is `deaf`
// nothing comes back.
export async function cuttable() {
  const { port, hostname, pathname } = new URL(server);
  const links = new Set();
  const proxy = net.createServer((near) => {
    if (way.away) return void near.resetAndDestroy();
    const far = net.connect(Number(port), hostname);
    links.add(near);
    for (const [from, to] of [[near, far], [far, near]]) {
      from.on("data", (bytes) => { if (from === near || !way.deaf) to.write(bytes); });
      from.on("end", () => to.end());
      from.on("error", () => {});
      from.on("close", () => { to.destroy(); links.delete(near); });
    }
  });
  const way = {
    away: false,
    deaf: false,
    cut() { for (const near of links) near.resetAndDestroy(); },
    close() { proxy.close(); way.cut(); },
  };
  await new Promise((resolve) => { proxy.listen(0, "127.0.0.1", resolve); });
  way.url = `http://127.0.0.1:${proxy.address().port}${pathname}`;
  return way;
}

// Loses the answers of the next n requests, after the server has executed them.
export function loseAnswers(count) {
  globalThis.fetch = async (...request) => {
    const response = await untouched(...request);
    if (count === 0) return response;
    count -= 1;
    await response.text();
    throw new TypeError("fetch failed");
  };
}

// Replaces all cursors sent over HTTP from now on by invalid ones.
function spoilCursors() {
  globalThis.fetch = (url, request) => untouched(url, { ...request, body: request.body.replace(/"since":"[^"]*"/, '"since":"nonsense"') });
}

// Holds all requests from now on until they are released.
export function holdSends() {
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  globalThis.fetch = async (url, request) => {
    if (request.body.includes("sendMessage")) await held;
    return untouched(url, request);
  };
  return release;
}

// Replaces the next answer by this one, as from an overloaded server.
export function answerOnce(errors) {
  globalThis.fetch = async () => {
    globalThis.fetch = untouched;
    const headers = { "content-type": "application/graphql-response+json" };
    return new Response(JSON.stringify({ errors }), { status: 503, headers });
  };
}

export const BUSY = [{ message: "busy", extensions: { code: "UNAVAILABLE", retryable: true, retryAfterMs: 20 } }];

export function done(what) {
  console.log(`ok ${what}`);
}

// The same socket, which records what it received, and whose cursors can be replaced by invalid ones (`nonsense`).
const told = [];
let nonsense = false;
export function noting(socket) {
  return {
    ...socket,
    subscribe: ({ variables, ...payload }, sink) => socket.subscribe({
      ...payload,
      variables: { ...variables, get since() { return nonsense ? "nonsense" : variables?.since; } },
    }, { ...sink, next(result) {
      const event = result.data?.messageEvents;
      if (event?.__typename === "MessageCreated") told.push(event.message.content);
      sink.next(result);
    } }),
  };
}

// make({ url, token, me }): a client of the guide, as { act, start(chat), titles(), unread(title), read(title), open(conversationId),
// contents(), older(), stop() }. The messages are those of the open conversation.
export async function tryClient(make) {
  const user = new Person("alice");
  const bob = new Person("bob");
  const carol = new Person("carol");
  const way = await cuttable();
  await user.ask("{ me { id } }"); // creates the user
  const { conversationId } = await bob.send(user.name, "first");
  await carol.send(user.name, "hello");
  const me = { id: user.name, displayName: user.name };
  const made = await make({ url: way.url, token: async () => jwt(user.name), me });
  const chat = new Chat(me, made.act);
  const client = { ...made, send: (input) => chat.send(input) };

  await client.start(chat);
  assert.deepEqual(client.titles(), [carol.name, bob.name]);
  assert.equal(client.unread(bob.name), 1);
  await client.open(conversationId);
  assert.deepEqual(client.contents(), ["first"]);
  done("shows the list and a conversation");

  await bob.send(user.name, "second");
  await until("a live message", () => client.contents().includes("second"));
  await until("the list in its new order", () => client.titles()[0] === bob.name && client.unread(bob.name) === 2);
  await user.ask("mutation ($id: ID!) { markRead(conversationId: $id) { id } }", { id: conversationId });
  await until("what another device has read", () => client.unread(bob.name) === 0);
  await sleep(50);
  await bob.send(user.name, "live");
  await until("what a message changes in the list", () => client.unread(bob.name) === 1);
  done("follows what happens");

  way.away = true;
  way.cut();
  await sleep(50);
  await bob.send(user.name, "third");
  await bob.send(user.name, "fourth");
  await user.ask("mutation ($id: ID!) { pinSession(conversationId: $id) { id } }", { id: privateConversationId(user.name, carol.name) });
  await sleep(50);
  way.away = false;
  await until("what was missed", () => client.contents().includes("fourth"));
  await until("the list after a break", () => client.titles()[0] === carol.name && client.unread(bob.name) === 3);
  assert.deepEqual(client.contents(), ["first", "second", "live", "third", "fourth"]);
  assert.deepEqual(told, ["second", "live", "third", "fourth"]);
  done("has everything once, in order, after a break");

  loseAnswers(2);
  const sending = client.send({ conversationId, content: "fifth" });
  await until("what is being sent", () => client.contents().includes("fifth"));
  await sending;
  assert.deepEqual(await bob.contents(conversationId), ["first", "second", "live", "third", "fourth", "fifth"]);
  answerOnce(BUSY);
  await client.send({ conversationId, content: "sixth" });
  await until("both, once each", () => client.contents().slice(5).join() === "fifth,sixth");
  assert.deepEqual(await bob.contents(conversationId), ["first", "second", "live", "third", "fourth", "fifth", "sixth"]);
  done("shows at once what it sends, and sends it once, however often the answer is lost");

  const release = holdSends();
  const waiting = client.send({ conversationId, content: "seventh" });
  await until("what waits", () => client.contents().includes("seventh"));
  await bob.send(user.name, "meanwhile");
  await until("what another one writes meanwhile", () => client.contents().slice(7).join() === "meanwhile,seventh");
  release();
  await waiting;
  await until("each in its place", async () => client.contents().join() === (await bob.contents(conversationId)).join());
  done("shows what others write while something waits to be sent");

  const long = (await carol.send(user.name, "0")).conversationId;
  const fill = Array.from({ length: 25 }, (_, n) => `m${n}: sendMessage(input: { toUserId: "${user.name}", content: "x${n}" }) { replayed }`);
  for (let times = 0; times < 3; times += 1) await carol.ask(`mutation { ${fill.join(" ")} }`);
  await client.open(long);
  await until("the newest", () => client.contents().length >= 50);
  await client.older();
  const all = (await carol.contents(long)).join();
  await until("what is older", () => client.contents().join() === all);
  await carol.send(user.name, "the newest");
  await until("what is live", () => client.contents().join() === `${all},the newest`);
  done("goes back in history, and goes on");

  await client.open(conversationId);
  way.away = true;
  way.cut();
  await sleep(50);
  nonsense = true;
  spoilCursors();
  await bob.send(user.name, "untold");
  way.away = false;
  await until("what could not be told", () => client.contents().includes("untold"));
  await until("the list all the same", () => client.titles().join() === [carol.name, bob.name].join() && client.unread(bob.name) === 1);
  nonsense = false;
  globalThis.fetch = untouched;
  assert.deepEqual(client.contents(), await bob.contents(conversationId));
  done("begins anew where too much was missed");

  // It is mostly about code that all clients share.
  if (WHOLE_CHAT) await tryWholeChat({ client, chat, user, bob, carol, conversationId });

  await client.stop();
  // Ignore later retries of the libraries.
  process.exit(0);
}

export function codeOf(error) {
  const errors = error?.errors ?? error?.graphQLErrors ?? error?.source?.errors;
  return errors?.[0]?.extensions?.code;
}
