// Every close code, really provoked, and what npm graphql-ws makes of it: comes back and resumes, or gives up for good.
import { createClient } from "graphql-ws";
import WebSocket from "ws";
import { EVENTS, Follower } from "./following.mjs";
import { sleep } from "./servers.mjs";

const RETRY_WAIT = 200;
const GIVES_UP_WITHIN = 5_000;

let turn = 0;

// A client of one subscription on a server, which counts how it was closed. `overrides`: what a case needs to be different;
// `user`: who it is; `ready`: the subscription has caught up.
class Watched {
  constructor(deployment, { user = `reader${(turn += 1)}`, server = 0, overrides = {} } = {}) {
    this.user = user;
    this.closes = [];
    this.connected = 0;
    this.socket = null;
    this.follower = new Follower();
    this.client = createClient({
      url: deployment.ws(server),
      webSocketImpl: WebSocket,
      connectionParams: () => ({ Authorization: `Bearer ${deployment.token(user)}` }),
      retryAttempts: 50,
      retryWait: () => sleep(RETRY_WAIT),
      // A refused connection is an error event and no close event, which it does not try again by itself.
      shouldRetry: () => true,
      ...overrides,
      on: {
        connected: (socket) => { this.connected += 1; this.socket = socket; },
        closed: (event) => this.closes.push(event),
        ...overrides.on,
      },
    });
    this.end = this.client.subscribe({ query: EVENTS, variables: this.follower.variables }, this.follower.sink);
  }

  ready() {
    return this.follower.until("CaughtUp", () => this.follower.caughtUp.length > 0);
  }

  closed(count = 1, patience = undefined) {
    return this.follower.until("a close", () => this.closes.length >= count || this.follower.failure, patience);
  }

  async dispose() {
    this.end();
    // It complains of a connection that it was about to open.
    await Promise.resolve(this.client.dispose()).catch(() => {});
  }
}

// Breaks the protocol on the client's own socket.
const says = (text) => async ({ reader }) => reader.socket.send(text);

const later = (seconds) => new Promise((resolve) => { setTimeout(resolve, 1000 * seconds).unref(); });

// `code` 0: the client sees an error instead. `at`: when it happens, "live" once the subscription has caught up, "opening" the
// first time it connects.
const CASES = [
  { name: "the server restarts", code: 1012, retries: true, controlled: true,
    provoke: ({ deployment }) => deployment.stop(0), restore: ({ deployment }) => deployment.start(0) },
  { name: "the server is killed", code: 1006, retries: true, controlled: true,
    provoke: ({ deployment }) => deployment.kill(0), restore: ({ deployment }) => deployment.start(0) },
  { name: "it stops reading for good", code: [1006, 1013], retries: true, patience: 60_000, flood: 400,
    provoke: async ({ deployment, reader, flood }) => {
      const { socket } = reader;
      socket.pause();
      for (const text of flood) await deployment.send("bob", reader.user, text, 0);
      // The system keeps what came before the end, so it reads on only when that is past.
      await later(20);
      socket.resume();
    } },
  { name: "one connection too many of a user", code: 1013, retries: true, at: "opening", setting: "ws_max_connections_per_user",
    before: async ({ deployment, user }) => {
      const others = Array.from({ length: Number(deployment.settings.ws_max_connections_per_user) },
        () => new Watched(deployment, { user }));
      await Promise.all(others.map((other) => other.ready()));
      return others;
    },
    restore: async ({ prepared }) => { await prepared[0].dispose(); },
    after: ({ prepared }) => Promise.all(prepared.slice(1).map((other) => other.dispose())) },
  { name: "a frame that is none of the protocol", code: 4400, retries: false, provoke: says('{"type":"nonsense"}') },
  { name: "a frame of more than 1 MiB", code: 1009, retries: false, provoke: says(" ".repeat(1_100_000)) },
  { name: "subscribe before the acknowledgement", code: 4401, retries: false, at: "opening",
    overrides: () => ({ on: { opened: (socket) => {
      socket.send(JSON.stringify({ id: "early", type: "subscribe", payload: { query: EVENTS } }));
    } } }) },
  { name: "a token that is refused, then a good one", code: 4403, retries: true, at: "opening",
    overrides: ({ deployment, user }) => {
      let times = 0;
      return { connectionParams: () => {
        times += 1;
        return { Authorization: times > 1 ? `Bearer ${deployment.token(user)}` : "Bearer of.no.token" };
      } };
    } },
  { name: "the token expires on the live socket", code: 4403, retries: true,
    overrides: ({ deployment, user }) => {
      let times = 0;
      return { connectionParams: () => ({ Authorization: `Bearer ${deployment.token(user, (times += 1) > 1 ? 3600 : 3)}` }) };
    },
    provoke: async () => {} },
  { name: "the user's tokens are revoked", code: 4403, retries: true, controlled: true,
    // Tokens are dated in whole seconds: the next one has to be of a later second than the revocation.
    overrides: () => ({ retryWait: () => sleep(1100) }),
    provoke: ({ deployment, reader }) => deployment.revoke(reader.user) },
  { name: "it asks for no subprotocol", code: 4406, retries: false, at: "opening",
    overrides: () => ({ webSocketImpl: class extends WebSocket { constructor(url) { super(url); } } }) },
  { name: "no connection_init in time", code: 4408, retries: true, at: "opening", patience: 15_000,
    overrides: ({ deployment, user }) => {
      let times = 0;
      return { connectionParams: async () => {
        times += 1;
        if (times === 1) await sleep(1500 * Number(deployment.settings.ws_init_timeout_seconds ?? 10));
        return { Authorization: `Bearer ${deployment.token(user)}` };
      } };
    } },
  { name: "it answers no ping", code: 4408, retries: true, setting: "ws_ping_interval_seconds", overrides: () => ({ disablePong: true }),
    provoke: async () => {} },
  { name: "an id twice", code: 4409, retries: false,
    provoke: async ({ reader }) => {
      const frame = JSON.stringify({ id: "twice", type: "subscribe", payload: { query: EVENTS } });
      reader.socket.send(frame);
      reader.socket.send(frame);
    } },
  { name: "connection_init twice", code: 4429, retries: false, provoke: says('{"type":"connection_init"}') },
  { name: "a defect of the server", code: 4500, retries: false, server: 2,
    provoke: says('{"type":"ping","payload":{"defect":true}}') },
];

async function tryCase(deployment, { name, ...one }) {
  const user = `reader${(turn += 1)}`;
  const context = { deployment, user };
  context.prepared = await one.before?.(context);
  const overrides = one.overrides?.(context);
  const server = one.server ?? 0;
  const reader = context.reader = new Watched(deployment, { user, server, overrides });
  const expected = [];
  try {
    if (one.at !== "opening") {
      await reader.ready();
      await deployment.send("bob", user, "before", server);
      await reader.follower.heard("before");
      expected.push("before");
      context.flood = Array.from({ length: one.flood ?? 0 }, (_, number) => `${number} ${"🎈".repeat(3_900)}`);
      expected.push(...context.flood);
      await one.provoke(context);
    }
    await reader.closed(1, one.patience);
    const [close] = reader.closes;
    if (!close) throw new Error(`no close but ${reader.follower}`);
    const codes = [one.code].flat();
    if (!codes.includes(close.code)) throw new Error(`closed with ${close.code} ${close.reason}`);
    if (one.retries) await comesBack(context, one, expected);
    else await givesUp(reader);
    return `${close.code} ${close.reason || "(no reason)"}`;
  } finally {
    await reader.dispose();
    await one.after?.(context);
  }
}

async function comesBack(context, one, expected) {
  const { deployment, reader, user } = context;
  const other = deployment.controlled ? 1 : 0;
  if (one.at !== "opening") {
    // Sent while it is away, through another server if this one has gone.
    await deployment.send("bob", user, "meanwhile", other);
    expected.push("meanwhile");
  }
  await one.restore?.(context);
  await reader.follower.until("CaughtUp after the close", () => reader.follower.caughtUp.length > (one.at === "opening" ? 0 : 1));
  await deployment.send("bob", user, "after", other);
  await reader.follower.heard("after");
  reader.follower.check([...expected, "after"]);
}

async function givesUp(reader) {
  const { connected } = reader;
  await reader.follower.until("its giving up", () => reader.follower.failure, GIVES_UP_WITHIN);
  await sleep(4 * RETRY_WAIT);
  if (reader.connected > connected) throw new Error("it came back");
}

export async function closeCodes(deployment, report) {
  for (const one of CASES) {
    const missing = (one.controlled || one.server) && !deployment.controlled ? "servers of its own"
      : one.setting && !(one.setting in deployment.settings) ? `the setting ${one.setting}`
      : null;
    const what = `${String(one.code).padEnd(9)} ${one.name}: ${one.retries ? "comes back, resumes" : "gives up"}`;
    await report("graphql-ws", what, missing, () => tryCase(deployment, one));
  }
}
