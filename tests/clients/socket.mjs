// The guide's socket: everything that ends a connection, and everything that may fail when it reconnects.
import assert from "node:assert/strict";
import WebSocket from "ws";
import { MESSAGE_EVENTS } from "../docs/clients/operations.mjs";
import { openSocket, resuming } from "../docs/clients/socket.mjs";
import { BUSY, Person, cuttable, done, jwt, sleep, until } from "./scenario.mjs";

const bob = new Person("bob");
await bob.ask("{ me { id } }");

// A subscriber, and the events it received.
async function listening(options, seconds = 3600) {
  const person = new Person("alice");
  await person.ask("{ me { id } }");
  const way = await cuttable();
  const heard = [];
  const closes = [];
  const asked = [];
  const socket = openSocket({
    url: way.url,
    token: async () => { asked.push(Date.now()); return jwt(person.name, seconds); },
    webSocketImpl: WebSocket,
    retryWait: () => sleep(20),
    ...options(person, asked),
  });
  socket.on("closed", ({ code }) => closes.push(code));
  const stop = resuming(socket).subscribe({ query: MESSAGE_EVENTS, variables: { since: null } }, {
    next: ({ data }) => heard.push(data.messageEvents.message?.content ?? data.messageEvents.__typename),
    error: (error) => heard.push(error),
    complete: () => heard.push("complete"),
  });
  return { person, way, heard, closes, asked, socket, async end() { stop(); await socket.dispose(); way.close(); } };
}

// A busy machine may renew a short token too late: then tokens are valid twice as long.
async function renewed(seconds = 4) {
  const at = await listening(() => ({}), seconds);
  await until("its start", () => at.heard.length > 0);
  await sleep(1000 * seconds + 100);
  if (at.closes.length > 0 && seconds < 32) {
    await at.end();
    return renewed(2 * seconds);
  }
  await bob.send(at.person.name, "later");
  await until("what came later", () => at.heard.includes("later"));
  assert.deepEqual(at.closes, []);
  assert(at.asked.length > 1);
  for (let next = 1; next < at.asked.length; next += 1) assert(at.asked[next] - at.asked[next - 1] > 900);
  await at.end();
  done("a token is renewed on the open connection");
}

async function notRenewed() {
  const at = await listening((person, asked) => ({
    token: async () => {
      asked.push(Date.now());
      if (asked.length === 2) throw new Error("the identity provider is away");
      return jwt(person.name, asked.length === 1 ? 2 : 3600);
    },
  }));
  await until("its start", () => at.heard.length > 0);
  await until("the token's end", () => at.closes.includes(4403));
  await bob.send(at.person.name, "meanwhile");
  await until("what came meanwhile", () => at.heard.includes("meanwhile"));
  await at.end();
  done("one that could not be renewed ends the connection, and the next one has another");
}

async function refusedEarly() {
  const at = await listening((person, asked) => ({
    token: async (refused) => {
      asked.push(refused);
      return refused ? jwt(person.name) : `${await jwt(person.name)}x`;
    },
  }));
  await until("its start", () => at.heard.length > 0);
  // A busy server may first refuse connections before it reads the token: 1006.
  assert.equal(at.closes.find((code) => code !== 1006), 4403);
  assert.equal(at.asked[0], undefined);
  assert.match(at.asked[1], /x$/);
  assert.equal(at.asked.length, 2);
  await at.end();
  done("one that is refused before its end is not shown again");
}

async function longToken() {
  const at = await listening(() => ({}), 60 * 86_400);
  await until("its start", () => at.heard.length > 0);
  await sleep(200);
  assert.equal(at.asked.length, 1);
  await at.end();
  done("one of two months is not renewed at once");
}

async function noTokenYet() {
  const at = await listening((person, asked) => ({
    token: async () => {
      asked.push(Date.now());
      if (asked.length < 3) throw new Error("the identity provider is away");
      return jwt(person.name);
    },
    retryWait: () => sleep(20),
  }));
  await until("its start", () => at.heard.includes("CaughtUp"));
  await at.end();
  done("where there is no token yet it tries again");
}

async function away() {
  const at = await listening(() => ({}));
  await until("its start", () => at.heard.length > 0);
  at.way.away = true;
  at.way.cut();
  await sleep(200);
  await bob.send(at.person.name, "meanwhile");
  at.way.away = false;
  await until("what came meanwhile", () => at.heard.includes("meanwhile"));
  at.socket.terminate();
  await bob.send(at.person.name, "after sleeping");
  await until("what came after sleeping", () => at.heard.includes("after sleeping"));
  assert.equal(at.heard.filter((each) => each !== "CaughtUp").join(), "meanwhile,after sleeping");
  await at.end();
  done("it comes back to a server that was away for many tries, and after terminate()");
}

// A real server would need to lose its database for this.
async function busy() {
  const asked = [];
  const stub = {
    subscribe({ variables }, sink) {
      asked.push({ ...variables }.since);
      if (asked.length === 1) sink.next({ data: { messageEvents: { cursor: "one" } } });
      if (asked.length < 3) sink.error(BUSY);
      else sink.error([{ message: "no", extensions: { code: "NOT_FOUND", retryable: false } }]);
      return () => {};
    },
  };
  const refused = await new Promise((resolve) => {
    resuming(stub).subscribe({ query: "", variables: { since: "zero" } }, { next() {}, error: resolve });
  });
  assert.equal(refused.message, "no");
  assert.deepEqual(asked, ["zero", "one", "one"]);
  done("a subscription that fails for the moment begins again where it was; one that is refused doesn't");
}

await Promise.all([renewed(), notRenewed(), refusedEarly(), longToken(), noTokenYet(), away(), busy()]);
