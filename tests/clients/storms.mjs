// Counts how often each client connects while something is wrong: at most one try per back-off.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import WebSocket, { WebSocketServer } from "ws";
import { apolloAct, apolloClient, startApollo } from "../docs/clients/apollo.mjs";
import { Chat } from "../docs/clients/chat.mjs";
import { Pages, plainAct, plainClient, startPlain } from "../docs/clients/plain.mjs";
import { openSocket } from "../docs/clients/socket.mjs";
import { startUrql, urqlAct, urqlClient } from "../docs/clients/urql.mjs";
import { Person, done, jwt, server, sleep, until } from "./scenario.mjs";

const { startRelay } = await import("../docs/clients/relay/Chat.mjs");
const { relayAct } = await import("../docs/clients/relay/actions.mjs");
const { relayEnvironment } = await import("../docs/clients/relay/environment.mjs");

const MISTAKE = "a mistake of the application";
const OBSERVED = 5_000;
// The largest number of tries in this time. The shortest waits are 250, 500, 1000, 2000, 4000 and 7500 ms.
function mostTries(ms) {
  let tries = 1;
  for (let wait = 250, at = wait; at <= ms; at += wait) {
    tries += 1;
    wait = Math.min(2 * wait, 7_500);
  }
  return tries;
}
const introspection = (name) => JSON.parse(readFileSync(new URL(`../web/types/confab.${name}.json`, import.meta.url)));
const [possibleTypes, schema] = [introspection("possible-types"), introspection("introspection")];

const CLIENTS = {
  plain(options) {
    const client = plainClient(options);
    return { act: plainAct(client), start: (chat) => startPlain(client, new Pages(client), chat) };
  },
  apollo(options) {
    const client = apolloClient({ ...options, possibleTypes });
    return { act: apolloAct(client), start: (chat) => startApollo(client, chat) };
  },
  urql(options) {
    const client = urqlClient({ ...options, schema });
    return { act: urqlAct(client), start: (chat) => startUrql(client, chat) };
  },
  relay(options) {
    const environment = relayEnvironment(options);
    return { act: relayAct(environment), start: (chat) => startRelay(environment, chat) };
  },
};

const refuse = (code, retryable) => ({ id }, socket) =>
  socket.send(JSON.stringify({ id, type: "error", payload: [{ message: code, extensions: { code, retryable } }] }));
const close = (...reason) => (message, socket) => socket.close(...reason);
function reset({ id, payload: { query } }, socket) {
  const data = query.includes("syncSession(")
    ? { syncSession: { __typename: "SyncSession", reason: "CATCH_UP", reset: true, hasMore: false, cursor: "nonsense", totalUnread: 0, sessions: [] } }
    : { messageEvents: { __typename: "CaughtUp", cursor: "nonsense", reset: true } };
  socket.send(JSON.stringify({ id, type: "next", payload: { data } }));
}

// Behaviour of the server towards a new connection or a subscription. repeats: the client connects again after each
// back-off; otherwise it connects once. subscriptions: the smallest number.
const TROUBLES = {
  "a cursor that cannot be resumed": { subscribe: reset },
  "a refused subscription": { subscribe: refuse("NOT_FOUND", false) },
  "an unavailable server": { subscribe: refuse("UNAVAILABLE", true), subscriptions: 4 },
  "a refused token": { init: close(4403, "Forbidden"), repeats: true },
  "an expired token": { subscribe: close(4403, "Token expired"), repeats: true },
  "an event that the application cannot handle": { subscribe: reset, throws: true },
  "a server that is down": { down: true, repeats: true },
  "close code 4400": { subscribe: close(4400, "Invalid message received") },
  "close code 4401": { subscribe: close(4401, "Unauthorized") },
  "close code 4429": { subscribe: close(4429, "Too many initialisation requests") },
  "close code 1012": { subscribe: close(1012, "Service restart; retry in 10 ms"), repeats: true },
  "close code 1013": { subscribe: close(1013, "Try again later"), repeats: true },
};

// Passes requests on to the real server. Its WebSockets have the trouble.
async function troubledServer({ init, subscribe, down }) {
  let tries = 0;
  let subscriptions = 0;
  const http = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { authorization, accept } = request.headers;
    const headers = { authorization, accept, "content-type": "application/json" };
    const answer = await fetch(server, { method: "POST", headers, body: Buffer.concat(chunks) });
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") });
    response.end(await answer.text());
  });
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: () => "graphql-transport-ws" });
  http.on("upgrade", (request, tcp, head) => {
    tries += 1;
    if (down) return void tcp.destroy();
    sockets.handleUpgrade(request, tcp, head, (socket) => socket.on("message", (text) => {
      const message = JSON.parse(text);
      if (message.type === "connection_init" && init) init(message, socket);
      else if (message.type === "connection_init") socket.send(JSON.stringify({ type: "connection_ack" }));
      if (message.type !== "subscribe") return;
      subscriptions += 1;
      subscribe(message, socket);
    }));
  });
  await new Promise((resolve) => { http.listen(0, "127.0.0.1", resolve); });
  return { url: `http://127.0.0.1:${http.address().port}/graphql`, counts: () => ({ tries, subscriptions }) };
}

async function count(client, trouble) {
  const { repeats = false, subscriptions: wanted = 0, throws, ...behaviour } = TROUBLES[trouble];
  const person = new Person("alice");
  const { url, counts } = await troubledServer(behaviour);
  const token = async () => jwt(person.name);
  const began = Date.now();
  const { act, start } = CLIENTS[client]({ url, token, socket: openSocket({ url, token, webSocketImpl: WebSocket }) });
  const chat = new Chat({ id: person.name, displayName: person.name }, act);
  if (throws) chat.onEvent = () => { throw new Error(MISTAKE); };
  await start(chat);
  await sleep(OBSERVED);
  await until(`${client} with ${trouble}`, () => counts().tries >= (repeats ? 2 : 1) && counts().subscriptions >= wanted);
  const { tries, subscriptions } = counts();
  // A busy machine starts a client slowly.
  const observed = Date.now() - began;
  const found = `${client}, ${trouble}: ${tries} connections and ${subscriptions} subscriptions in ${observed} ms`;
  assert(tries <= (repeats ? mostTries(observed) : 1), found);
  assert(subscriptions <= 2 * mostTries(observed), found); // each client has two
}

// The clients report these errors.
console.error = () => {};
// rxjs reports mistakes of the application like this.
process.on("uncaughtException", (error) => {
  if (error.message === MISTAKE) return;
  console.log(error);
  process.exit(1);
});
await Promise.all(Object.keys(CLIENTS).flatMap((client) => Object.keys(TROUBLES).map((trouble) => count(client, trouble))));
for (const trouble of Object.keys(TROUBLES)) done(`no client connects too often: ${trouble}`);
process.exit(0);
