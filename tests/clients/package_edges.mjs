// Rare situations of the package @confab/client against a real server.
import assert from "node:assert/strict";
import { privateId } from "../web/client/index.mjs";
import { cut, done, open, retried, signIn, sockets, texts } from "./package_parts.mjs";
import { jwt, Person, sleep, until } from "./scenario.mjs";

const untouched = globalThis.fetch;
let requests = [];
globalThis.fetch = (url, request) => {
  requests.push({ body: String(request?.body ?? ""), authorization: request?.headers?.authorization });
  return untouched(url, request);
};
const named = (name) => requests.filter(({ body }) => body.includes(name)).length;

const [ann, ben] = [new Person("ann"), new Person("ben")];
await ann.ask("{ me { id } }");
await ben.ask("{ me { id } }");
const conversation = privateId(ann.name, ben.name);
const a = signIn(ann.name);
await until("active", () => a.state.get() === "Active");

requests = [];
const empty = open(a.messages(conversation, { around: 5 }));
await until("an empty history", () => empty.get().status === "ready");
const never = open(a.messages("g_1", { around: 5 }));
await until("a group that is not there", () => never.get().status !== "loading");
await sleep(500);
assert.ok(named("query Messages") <= 4, `${named("query Messages")} requests`);
done("an empty history is asked for once");

// The next message is written in the moment in which the one before it is stored.
const history = open(a.messages(conversation));
for (let n = 0; n < 10; n += 1) {
  a.send(conversation, { text: `${n}` });
  await new Promise((resolve) => {
    const end = history.subscribe(() => { if (!history.get().pending.length) { end(); resolve(); } });
  });
}
await until("all are stored", async () => (await ben.contents(conversation)).join() === "0,1,2,3,4,5,6,7,8,9");
done("a message that is written when the one before it has been stored is sent");

const makeWorkspace = async (name, isOpen) => (await ben.ask("mutation ($input: CreateWorkspaceInput!) { createWorkspace(input: $input) { id } }", { input: { name, isOpen } })).createWorkspace.id;
const [first, second, visited] = [await makeWorkspace("first", true), await makeWorkspace("second", true), await makeWorkspace("visited", true)];
for (const id of [first, second]) await ann.ask("mutation ($id: ID!) { joinWorkspace(workspaceId: $id) { id } }", { id });
const b = signIn(ann.name, { device: { deviceId: "another", deviceType: "WEB" } });
const views = [first, second].map((id) => open(b.workspace(id)));
await until("both workspaces", () => views.every((view) => view.get().status === "ready") && b.state.get() === "Active");
await ann.ask("mutation ($id: ID!) { leaveWorkspace(workspaceId: $id) }", { id: second });
await until("one workspace is left", () => b.workspaces.get().map(({ name }) => name).join() === "first");
assert.equal(views[1].get().status, "failed");
assert.equal(views[1].get().error.code, "NOT_FOUND");
cut();
await until("the connection is lost", () => b.state.get() !== "Active");
await until("active again after leaving a workspace", () => b.state.get() === "Active");
await ann.ask("mutation ($id: ID!) { joinWorkspace(workspaceId: $id) { id } }", { id: second });
await retried(b.reloadWorkspaces);
await until("it is back", () => views[1].get().status === "ready");
const visit = open(b.workspace(visited));
await until("an open workspace of others", () => visit.get().status === "ready");
// On a busy machine, earlier requests may arrive late.
for (let tries = 1; tries === 1 || named("query Workspace") + named("query MyWorkspaces") > 0; tries += 1) {
  assert.ok(tries < 8, `${named("query Workspace")} and ${named("query MyWorkspaces")} requests`);
  requests = [];
  await sleep(3_000);
}
const unknown = open(b.workspace("w_1"));
await until("no such workspace", () => unknown.get().status === "failed");
done("joining, leaving and visiting workspaces");

// The source's current token is never replaced: the client uses what renew gives.
let renewals = 0;
const old = { token: jwt(ann.name, -10), userId: ann.name, expiresAt: Date.now() - 10_000 };
const renewed = { token: jwt(ann.name), userId: ann.name, expiresAt: Date.now() + 3600_000 };
const c = signIn(ann.name, { tokens: { current: () => old, renew: async () => ((renewals += 1), renewed) }, device: { deviceId: "third", deviceType: "WEB" } });
await until("active with the renewed token", () => c.state.get() === "Active");
await c.api.request({ name: "Me", text: "{ me { id } }" }, {});
assert.equal(renewals, 1);
c.stop();
done("the token that renew gives is used");

const lost = open(a.thread({ id: "m_0", conversationId: conversation }));
await until("a thread of no message", () => lost.get().status === "failed");
assert.equal(lost.get().error.code, "NOT_FOUND");
done("the thread of a message that is not there fails");

// The page of a history is answered only after a message that is sent meanwhile.
let release;
const held = new Promise((resolve) => (release = resolve));
const counted = globalThis.fetch;
globalThis.fetch = async (url, request) => (String(request?.body).includes("query Messages(") && (await held), counted(url, request));
const quick = signIn(ann.name, { device: { deviceId: "quick", deviceType: "WEB" } });
const opened = quick.messages(conversation);
let gone = 0;
opened.subscribe(() => {
  const { messages, pending } = opened.get();
  if (![...messages.map(({ content }) => content), ...pending.map(({ draft }) => draft.text)].includes("at once")) gone += 1;
});
quick.send(conversation, { text: "at once" });
await until("it is stored", async () => (await ben.contents(conversation)).includes("at once"));
await sleep(300);
release();
await until("it is shown", () => texts(opened).includes("at once") && !opened.get().pending.length);
assert.equal(gone, 0);
globalThis.fetch = counted;
quick.stop();
done("a message stays displayed when it is stored before the history is loaded");

assert.throws(() => signIn(ann.name, { url: "/graphql" }), /absolute address/);
done("a relative address is refused at once");

// The clock of this device is ahead: all tokens seem to have expired.
renewals = 0;
const early = { token: jwt(ann.name), userId: ann.name, expiresAt: Date.now() - 1_000 };
const ahead = signIn(ann.name, { tokens: { current: () => early, renew: async () => ((renewals += 1), early) }, device: { deviceId: "ahead", deviceType: "WEB" } });
await until("active with a clock that is ahead", () => ahead.state.get() === "Active");
for (let n = 0; n < 3; n += 1) await retried(() => ahead.markRead(conversation));
await sleep(2_500);
assert.equal(renewals, 1);
ahead.stop();
done("a token that has expired when it is new is used until the server refuses it");

// After signing out, the page's token is that of somebody else.
let token = { token: `${jwt(ann.name)}x`, userId: ann.name, expiresAt: Date.now() + 3600_000 };
const tokens = { current: () => token, renew: async () => token };
const d = signIn(ann.name, { tokens, device: { deviceId: "fourth", deviceType: "WEB" } });
await until("the first screen is refused", () => d.sessions().get().status === "failed");
const refused = open(d.messages(conversation));
await until("so is the history", () => refused.get().status === "failed");
const asking = d.markRead(conversation).then(() => "answered", (error) => error.code);
token = { token: jwt(ben.name), userId: ben.name, expiresAt: Date.now() + 3600_000 };
requests = [];
d.stop();
assert.notEqual(await asking, "answered");
await assert.rejects(d.markRead(conversation), { code: "STOPPED" });
const before = new Set(sockets);
open(d.messages("c_1"));
open(d.presence(ben.name));
await sleep(1_500);
assert.deepEqual([...sockets].filter((socket) => !before.has(socket)), []);
assert.ok(requests.every(({ authorization }) => authorization !== `Bearer ${token.token}`));
done("a stopped client asks for nothing, least of all with another user's token");

let other = { token: jwt(ann.name), userId: ann.name, expiresAt: Date.now() + 3600_000 };
let why = null;
const f = signIn(ann.name, { tokens: { current: () => other, renew: async () => other }, device: { deviceId: "sixth", deviceType: "WEB" }, onSignedOut: (text) => (why = text) });
await until("active", () => f.state.get() === "Active");
other = { token: jwt(ben.name), userId: ben.name, expiresAt: Date.now() + 3600_000 };
requests = [];
await assert.rejects(f.markRead(conversation), { code: "STOPPED" });
assert.equal(why, "Somebody else has signed in.");
assert.equal(f.state.get(), "Disconnected");
assert.deepEqual(requests, []);
done("a client stops when somebody else signs in on the page");

Object.defineProperty(globalThis, "navigator", { value: { locks: { request: async () => { throw new DOMException("refused", "SecurityError"); } } }, configurable: true });
const e = signIn(ann.name, { device: { deviceId: "fifth", deviceType: "WEB" } });
const last = open(e.messages(conversation));
e.send(conversation, { text: "without locks" });
await until("it is sent without locks", () => texts(last).at(-1) === "without locks" && !last.get().pending.length);
done("messages are sent where the browser refuses locks");
[a, b, e].forEach((client) => client.stop());
process.exit(0);
