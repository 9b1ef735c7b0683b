// @confab/client with the storage of the React Native sample. It needs nothing but what the engine of React Native has, and what
// hermes_prelude.js adds. So the server is replaced by canned answers.
import { createClient, privateId, type ConfabClient } from "@confab/client";
import { openStorage } from "../../docs/clients/react-native/storage";

declare function print(...values: unknown[]): void;
type Body = { query: string; variables: { input: { idempotencyKey: string; content: string } } };

const user = (id: string) => ({ id, displayName: id, avatarUrl: null, isBot: false });
const conversation = privateId("ann", "bob|7");
const keys: string[] = [];
let isReachable = false; // else answers of sendMessage are lost
const events: object[] = [];
let emit = (_event: object) => {};

function answer({ query, variables }: Body): object {
  if (query.includes("query Ready")) {
    const sessions = { edges: [], pageInfo: { hasNextPage: false, endCursor: null }, cursor: "1" };
    return { ready: { me: user("ann"), sessions, attention: { unread: 0, mentions: 0, threads: 0 }, workspaces: [], cursor: "1" } };
  }
  if (query.includes("query SyncSessions")) return { syncSessions: { sessions: [], cursor: "1", hasMore: false, totalUnread: 0, reset: false } };
  if (query.includes("query OfflineQueue")) return { offlineMessages: { edges: [], pageInfo: { hasNextPage: false } } };
  if (query.includes("query Messages")) return { messages: null };
  const { idempotencyKey, content } = variables.input;
  keys.push(idempotencyKey);
  if (!isReachable) throw new TypeError("Network request failed");
  const message = { id: "m_1", conversationId: conversation, seq: 1, content, idempotencyKey, state: "NORMAL", sender: user("ann"), reactions: [] };
  events.push({ __typename: "MessageCreated", message, cursor: "2" });
  emit(events[0]!);
  const session = { id: "s_1", conversation: { id: conversation, type: "PRIVATE" }, status: "ACTIVE", activeTs: 2, writeTs: 2, priority: 0 };
  return { sendMessage: { message, session, replayed: false } };
}

class FakeSocket {
  static CONNECTING = 0;
  static OPEN = 1;
  static CLOSING = 2;
  static CLOSED = 3;
  readyState = 1;
  protocol = "graphql-transport-ws";
  onopen = () => {};
  onmessage = (_event: { data: string }) => {};
  onclose = (_event: object) => {};
  onerror = () => {};

  constructor() {
    setTimeout(() => this.onopen(), 1);
  }

  send(text: string) {
    const { type, id, payload } = JSON.parse(text) as { type: string; id: string; payload: Body };
    const next = (data: object) => setTimeout(() => this.onmessage({ data: JSON.stringify({ type: "next", id, payload: { data } }) }), 1);
    if (type === "connection_init") setTimeout(() => this.onmessage({ data: '{"type":"connection_ack"}' }), 1);
    if (type === "subscribe" && payload.query.includes("syncSession")) {
      next({ syncSession: { reset: false, reason: "CATCH_UP", hasMore: false, sessions: [], totalUnread: 0, cursor: "1" } });
    } else if (type === "subscribe") {
      emit = (event) => next({ messageEvents: event });
      [...events, { __typename: "CaughtUp", cursor: "2", reset: false }].forEach(emit);
    }
  }

  close() {
    this.readyState = 3;
    this.onclose({ code: 1000, reason: "", wasClean: true });
  }
}

const disk = new Map<string, string>();
const asyncDisk = {
  getAllKeys: async () => [...disk.keys()],
  getItem: async (name: string) => disk.get(name) ?? null,
  setItem: async (name: string, value: string) => void disk.set(name, value),
  removeItem: async (name: string) => void disk.delete(name),
};
Object.assign(globalThis, {
  fetch: async (_url: string, { body }: { body: string }) => {
    const data = answer(JSON.parse(body) as Body);
    return { status: 200, headers: { get: () => null }, json: async () => ({ data }) };
  },
});

const token = { token: "t", userId: "ann", expiresAt: Date.now() + 3600_000 };
const start = async (): Promise<ConfabClient> =>
  createClient({
    url: "http://127.0.0.1/graphql",
    tokens: { current: () => token, renew: async () => token },
    device: { deviceId: "phone", deviceType: "MOBILE" },
    storage: await openStorage(asyncDisk),
    webSocket: FakeSocket,
  });
const until = async (what: string, isTrue: () => boolean) => {
  for (let tries = 0; !isTrue(); tries++) {
    if (tries > 12_000) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  print(`ok ${what}`);
};

async function main() {
  let client = await start();
  try {
    client.send(conversation, { text: "hello" });
    await until("a message is on the disk before it is stored", () => disk.size === 1 && keys.length > 0);
    client.stop();
    client = await start();
    const history = client.messages(conversation);
    history.subscribe(() => {});
    await until("the client is active", () => client.state.get() === "Active");
    isReachable = true;
    await until("a restarted app sends what waited", () => history.get().messages.length === 1 && !history.get().pending.length);
    await until("each attempt has the same key", () => keys.length > 1 && new Set(keys).size === 1);
    await until("the disk is empty again", () => disk.size === 0);
  } finally {
    client.stop();
  }
}

main().catch((error: unknown) => print("failed", String(error), (error as Error).stack));
