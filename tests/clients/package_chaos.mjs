// People with several devices use @confab/client while servers and databases fail. At the end all devices must show what the server
// has: standard input says when the faults are over. The last line of the output is a report as JSON.
import net from "node:net";
import { createInterface } from "node:readline";
import { createClient, privateId } from "../web/client/index.mjs";
import { CuttableSocket } from "./package_parts.mjs";
import { jwt, sleep } from "./scenario.mjs";

const { CONFAB_PORTS, CONFAB_SEED = "1", CONFAB_PAUSE_MS = "1000", CONFAB_PATIENCE_MS = "300000" } = process.env;
const ports = CONFAB_PORTS.split(",").map(Number);
const PEOPLE = ["ann", "ben", "carol", "dave"];
const DEVICES = 2;
const problems = [];
const figures = { acts: 0, refused: 0, restarts: 0, cuts: 0 };
const problem = (text) => {
  if (problems.length < 20) problems.push(text);
  console.log(`problem: ${text}`);
};
process.on("unhandledRejection", (error) => problem(`unhandled: ${error?.stack ?? error}`));
process.on("uncaughtException", (error) => problem(`uncaught: ${error?.stack ?? error}`));

let seed = Number(CONFAB_SEED);
function random() {
  seed = (seed + 0x6d2b79f5) | 0;
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
}
const pick = (list) => list[Math.floor(random() * list.length)];

/** A load balancer: each connection goes to the next server that accepts it. */
let turn = 0;
const links = new Set();
const balancer = net.createServer((near) => {
  links.add(near);
  near.on("error", () => {});
  near.on("close", () => links.delete(near));
  const attempt = (left) => {
    if (!left) return near.resetAndDestroy();
    const far = net.connect(ports[turn++ % ports.length], "127.0.0.1");
    far.once("error", () => attempt(left - 1));
    far.once("connect", () => {
      far.removeAllListeners("error");
      far.on("error", () => near.resetAndDestroy());
      near.pipe(far).pipe(near);
      near.on("close", () => far.destroy());
      far.on("close", () => near.destroy());
    });
  };
  attempt(ports.length);
});
await new Promise((resolve) => { balancer.listen(0, "127.0.0.1", resolve); });
const url = `http://127.0.0.1:${balancer.address().port}/graphql`;

class Disk {
  entries = new Map();
  get length() { return this.entries.size; }
  key(index) { return [...this.entries.keys()][index] ?? null; }
  getItem(name) { return this.entries.get(name) ?? null; }
  setItem(name, value) { this.entries.set(name, value); }
  removeItem(name) { this.entries.delete(name); }
}

async function retried(act, patience = Number(CONFAB_PATIENCE_MS)) {
  for (const ends = Date.now() + patience; ; ) {
    try {
      return await act();
    } catch (error) {
      if (!error.isRetryable || Date.now() > ends) throw error;
      await sleep(200);
    }
  }
}
const op = (text) => ({ name: "Test", text });
const tokenOf = (user) => ({ token: jwt(user), userId: user, expiresAt: Date.now() + 3600_000 });

/** Checks the messages of one history at every change. */
function watch(device, id, history) {
  const edits = new Map();
  history.subscribe(() => {
    const { messages } = history.get();
    messages.forEach(({ id: message, seq, editCount, state }, index) => {
      if (index && messages[index - 1].seq >= seq) problem(`${device.name} ${id}: not in order at ${seq}`);
      const newest = edits.get(message);
      const now = state === "RECALLED" ? Infinity : editCount;
      if (newest > now) problem(`${device.name} ${id}: ${message} became older`);
      edits.set(message, now);
    });
  });
}

class Device {
  constructor(user, number) {
    this.user = user;
    this.name = `${user}.${number}`;
    this.number = number;
    this.disk = new Disk();
    this.start();
  }
  start() {
    this.client = createClient({
      url,
      tokens: { current: () => tokenOf(this.user), renew: async () => tokenOf(this.user) },
      device: { deviceId: this.name, deviceType: "WEB" },
      webSocket: class extends CuttableSocket {},
      storage: this.disk,
    });
    this.histories = new Map();
    if (places.length) this.openAll();
  }
  openAll() {
    for (const id of placesOf(this.user)) {
      const history = this.client.messages(id);
      watch(this, id, history);
      this.histories.set(id, history);
    }
    this.workspace = this.client.workspace(workspace);
    this.workspace.subscribe(() => {});
  }
}

let places = [];
let workspace;
const placesOf = (user) => places.filter(({ members }) => members.includes(user)).map(({ id }) => id);

const setUp = new Device("ann", 99);
for (const user of PEOPLE) {
  const client = new Device(user, 99).client;
  await retried(() => client.api.request(op("{ me { id } }"), {}));
  client.stop();
}
const ask = (text, variables) => retried(() => setUp.client.api.request(op(text), variables));
const group = (await ask("mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }", { input: { name: "all", memberIds: PEOPLE.slice(1) } })).createGroup.id;
workspace = (await ask('mutation { createWorkspace(input: { name: "Team", isOpen: true }) { id } }')).createWorkspace.id;
const channel = (await ask("mutation ($input: CreateChannelInput!) { createChannel(input: $input) { id } }", { input: { workspaceId: workspace, name: "general", isDefault: true } })).createChannel.id;
await ask("mutation ($id: ID!) { followChannel(channelId: $id) { id } }", { id: channel });
for (const user of PEOPLE.slice(1)) {
  const { client } = new Device(user, 98);
  await retried(() => client.api.request(op("mutation ($id: ID!) { joinWorkspace(workspaceId: $id) { id } }"), { id: workspace }));
  client.stop();
}
const parent = (await ask("mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id conversationId } } }", { input: { conversationId: channel, content: "parent" } })).sendMessage.message;
const thread = (await ask("mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { conversationId } } }", { input: { threadOf: parent.id, content: "first reply" } })).sendMessage.message.conversationId;
setUp.client.stop();
places = [
  { id: group, members: PEOPLE },
  { id: channel, members: PEOPLE },
  { id: thread, members: PEOPLE },
  ...PEOPLE.map((user, n) => ({ id: privateId(user, PEOPLE[(n + 1) % PEOPLE.length]), members: [user, PEOPLE[(n + 1) % PEOPLE.length]] })),
];
const devices = PEOPLE.flatMap((user) => Array.from({ length: DEVICES }, (_, n) => new Device(user, n)));

/** Texts that were given to send, and where. */
const sent = new Map();
let over = false;
let number = 0;
const expected = new Set(["NOT_FOUND", "INVALID_INPUT", "RECALL_TIMEOUT", "LIMIT_REACHED"]);

async function act(device) {
  const { client } = device;
  const id = pick([...device.histories.keys()]);
  const messages = device.histories.get(id).get().messages.filter(({ contentType, state }) => contentType === "TEXT" && state === "NORMAL");
  const own = messages.filter(({ sender }) => sender.id === device.user);
  const die = random();
  figures.acts += 1;
  if (die < 0.6) {
    const text = `${device.name} ${(number += 1)}`;
    sent.set(text, id);
    return void (id === thread ? client.send(channel, { text, threadOf: parent.id }) : client.send(id, { text }));
  }
  if (die < 0.72 && messages.length) return client[random() < 0.7 ? "react" : "unreact"](pick(messages.slice(-10)).id, pick(["👍", "🎉", "❤️"]));
  if (die < 0.8 && own.length) {
    const { id: message, content } = pick(own.slice(-5));
    return client.edit(message, `${content.split(" (")[0]} (edited ${(number += 1)})`);
  }
  if (die < 0.92) return client.markRead(id);
  if (die < 0.97) {
    figures.cuts += 1;
    return void pick([...links])?.destroy();
  }
  figures.restarts += 1;
  client.stop();
  device.start();
}

createInterface({ input: process.stdin }).on("line", () => (over = true));
console.log("ready");
await Promise.all(devices.map(async (device) => {
  while (!over) {
    await sleep(Number(CONFAB_PAUSE_MS) * (0.5 + random()));
    // The user does not wait for an answer before doing something else.
    void Promise.resolve().then(() => act(device)).catch((error) => {
      figures.refused += 1;
      if (!error.isRetryable && !expected.has(error.code)) problem(`${device.name}: ${error.stack}`);
    });
  }
}));

/** Waits until there is no difference: all together until a deadline, and each a little. */
const deadline = Date.now() + Number(CONFAB_PATIENCE_MS);
async function settle(name, difference) {
  let found;
  for (const ends = Math.max(deadline, Date.now() + 3_000); Date.now() < ends; await sleep(500)) {
    try {
      found = await difference();
    } catch (error) {
      found = String(error.stack);
    }
    if (!found) return;
  }
  problem(`${name}: ${found}`);
}
const began = Date.now();
const waiting = (device) => [...device.disk.entries.values()].map((item) => JSON.parse(item));
for (const device of devices) {
  await settle(device.name, async () => {
    const [first] = waiting(device);
    return first && `${waiting(device).length} wait, the first: ${JSON.stringify(first)}, ${device.client.state.get()}`;
  });
}
figures.sentAfterMs = Date.now() - began;
await sleep(1_000);

const PAGE = `query ($id: ID!, $before: String) { messages(conversationId: $id, last: 100, before: $before) {
  edges { node { id seq content editCount state isPinned contentType reactions { emoji count viewerReacted } thread { replyCount } } } pageInfo { hasPreviousPage startCursor } } }`;
async function stored(client, id) {
  let all = [];
  for (let before = null; ; ) {
    const { edges, pageInfo } = (await retried(() => client.api.request(op(PAGE), { id, before }))).messages;
    all = [...edges.map(({ node }) => node), ...all];
    if (!pageInfo.hasPreviousPage) return all;
    before = pageInfo.startCursor;
  }
}
const shape = ({ id, seq, content, editCount, state, isPinned, reactions, thread: its }) =>
  JSON.stringify([id, seq, content, editCount, state, isPinned, reactions.map(({ emoji, count, viewerReacted }) => [emoji, count, viewerReacted]), id === parent.id ? its.replyCount : null]);
const SESSION = "query ($id: ID!) { session(conversationId: $id) { unreadCount unreadMentionCount readSeq writeSeq priority muteStatus status readCount } }";

figures.compared = 0;
for (const device of devices) {
  const { client } = device;
  for (const [id, history] of device.histories) {
    await settle(`${device.name} ${id}`, async () => {
      await retried(() => history.jumpTo(null));
      const { pending } = history.get();
      if (pending.length) return `pending: ${JSON.stringify(pending[0])}`;
      // Only a part of a long history is in memory at one time.
      const shown = new Map();
      const see = () => history.get().messages.forEach((message) => shown.set(message.id, message));
      for (see(); history.get().hasOlder; see()) await retried(() => history.loadOlder());
      const truth = await stored(client, id);
      const [mine, its] = [[...shown.values()].sort((one, other) => one.seq - other.seq).map(shape), truth.map(shape)];
      const at = its.findIndex((each, index) => each !== mine[index]);
      if (at >= 0 || mine.length !== its.length) return `${mine.length} shown, ${its.length} stored; the first difference: ${mine[at]}, stored: ${its[at]}`;
      figures.compared += its.length;
      return null;
    });
    await settle(`${device.name} session of ${id}`, async () => {
      const { session } = await retried(() => client.api.request(op(SESSION), { id }));
      const held = client.session(id).get();
      const wrong = Object.keys(session ?? {}).filter((name) => !(id === channel && name === "unreadCount") && held?.[name] !== session[name]);
      return wrong.length ? `${wrong}: shown ${wrong.map((name) => held?.[name])}, stored ${wrong.map((name) => session[name])}` : null;
    });
  }
  await settle(`${device.name} channel`, async () => {
    const { channel: truth } = await retried(() => client.api.request(op("query ($id: ID!) { channel(id: $id) { messageCount session { readCount unreadCount } } }"), { id: channel }));
    const held = device.workspace.get().channels.find((each) => each.id === channel);
    return held?.unreadCount === truth.messageCount - truth.session.readCount ? null : `unread ${held?.unreadCount}, stored ${JSON.stringify(truth)}`;
  });
}
const everything = new Map();
for (const { id, members } of places) {
  const { client } = devices.find(({ user }) => user === members[0]);
  // A message that the server refused as a repetition may keep its place without its content.
  for (const { content } of (await stored(client, id)).filter((each) => each.content !== null)) everything.set(`${id} ${content.split(" (")[0]}`, (everything.get(`${id} ${content.split(" (")[0]}`) ?? 0) + 1);
}
for (const [text, id] of sent) {
  const count = everything.get(`${id} ${text}`) ?? 0;
  if (count !== 1) problem(`${text} is stored ${count} times`);
}
figures.sent = sent.size;
figures.rightAfterMs = Date.now() - began;
devices.forEach(({ client }) => client.stop());
console.log(JSON.stringify({ problems, figures }));
process.exit(0);
