// Workspaces, channels and threads of the package @confab/client against a real server.
import assert from "node:assert/strict";
import { cut, done, open, retried, signIn, texts } from "./package_parts.mjs";
import { Person, sleep, until } from "./scenario.mjs";

const [ann, ben, carol] = ["ann", "ben", "carol"].map((name) => new Person(name));
for (const each of [ann, ben, carol]) await each.ask("{ me { id } }");
const { createWorkspace: workspace } = await ann.ask('mutation { createWorkspace(input: { name: "Team", isOpen: true }) { id } }');
const create = "mutation ($input: CreateChannelInput!) { createChannel(input: $input) { id } }";
const { createChannel: general } = await ann.ask(create, { input: { workspaceId: workspace.id, name: "general", isDefault: true } });
const { createChannel: talk } = await ann.ask(create, { input: { workspaceId: workspace.id, name: "talk", kind: "VOICE" } });

const [a, b, c] = [ann, ben, carol].map(({ name }) => signIn(name));
const clients = [a, b, c];
await until("all are active", () => clients.every((client) => client.state.get() === "Active"));
assert.deepEqual(a.workspaces.get().map(({ name }) => name), ["Team"]);
assert.deepEqual(b.workspaces.get(), []);
for (const [person, client] of [[ben, b], [carol, c]]) {
  await person.ask("mutation ($id: ID!) { joinWorkspace(workspaceId: $id) { id } }", { id: workspace.id });
  await retried(client.reloadWorkspaces);
  assert.deepEqual(client.workspaces.get().map(({ id }) => id), [workspace.id]);
}
const views = clients.map((client) => open(client.workspace(workspace.id)));
await until("the workspace of each", () => views.every((view) => view.get().status === "ready"));
assert.deepEqual(views[1].get().channels.map(({ name }) => name), ["general", "talk"]);
done("shows workspaces and channels");

const channelOf = (view) => view.get().channels.find(({ id }) => id === general.id);
const [first, second] = [a, b].map((client) => open(client.messages(general.id)));
await until("both have the channel open", () => [first, second].every((history) => history.get().status === "ready"));
a.send(general.id, { text: "hello" });
assert.deepEqual(first.get().pending.map(({ draft }) => draft.text), ["hello"]);
await until("the other receives it", () => texts(second).includes("hello"));
await until("nothing waits", () => !first.get().pending.length);
await until("it counts as unread for who is elsewhere", () => channelOf(views[2])?.unreadCount === 1);
await until("one's own message counts as read", () => channelOf(views[0]).unreadCount === 0);
const c2 = signIn(carol.name, { device: { deviceId: "another", deviceType: "MOBILE" } });
const view2 = open(c2.workspace(workspace.id));
await until("unread on the other device", () => channelOf(view2)?.unreadCount === 1);
await retried(() => c.markRead(general.id));
assert.equal(channelOf(views[2]).unreadCount, 0);
await until("read on the other device too", () => channelOf(view2)?.unreadCount === 0);
done("counts what is unread in channels, on all devices");

const [{ id: hello }] = second.get().messages;
await retried(() => b.react(hello, "🎉"));
await until("a reaction", () => first.get().messages[0].reactions[0]?.count === 1);
await ann.ask("mutation ($id: ID!) { pinMessage(messageId: $id) { id } }", { id: hello });
await until("a pin", () => second.get().messages.find(({ id }) => id === hello).isPinned && channelOf(views[1]).pinCount === 1);
const typing = open(b.typing(general.id));
await until("typing", () => (a.startTyping(general.id), typing.get().map(({ id }) => id).join() === ann.name));
a.stopTyping(general.id);
await until("no longer typing", () => !typing.get().length);
const presence = open(b.presence(ann.name));
await until("presence", () => presence.get()?.status === "ONLINE");
await retried(() => a.edit(hello, "Hello"));
await until("an edit", () => texts(second)[0] === "Hello");
done("reactions, pins, typing, presence, edits");

const join = { name: "Join", text: "mutation ($id: ID!) { joinVoice(channelId: $id) { state { channelId } } }" };
await retried(() => a.api.request(join, { id: talk.id }, { overWebSocket: true }));
const voice = () => views[1].get().channels.find(({ id }) => id === talk.id).voiceStates;
await until("somebody in the voice channel", () => voice().map(({ user }) => user.id).join() === ann.name);
await retried(() => a.api.request({ name: "Leave", text: "mutation { leaveVoice }" }, {}, { overWebSocket: true }));
await until("nobody in the voice channel", () => !voice().length);
done("shows who is in a voice channel");

const parent = { id: hello, conversationId: general.id };
const [mine, theirs] = [a, b].map((client) => open(client.thread(parent)));
await until("the parent", () => mine.get().parent?.content === "Hello" && mine.get().status === "ready");
assert.equal(mine.get().thread, null);
a.send(general.id, { text: "first reply", threadOf: hello });
assert.deepEqual(mine.get().pending.map(({ draft }) => draft.text), ["first reply"]);
assert.ok(!first.get().pending.length);
await until("the reply", () => texts(theirs).includes("first reply") && theirs.get().thread.replyCount === 1);
await until("nothing waits in the thread", () => !mine.get().pending.length && texts(mine).length === 1);
b.send(general.id, { text: "second reply", threadOf: hello, broadcast: true });
await until("both replies, in order", () => [mine, theirs].every((history) => texts(history).join() === "first reply,second reply"));
await until("the reply in the channel", () => [first, second].every((history) => texts(history).includes("second reply")));
const inbox = () => a.sessions({ subBiz: "@threads" }).get().sessions;
await until("the thread in the inbox", () => inbox()[0]?.unreadCount === 1 && inbox()[0].conversation.parent.id === hello);
await retried(() => a.markRead(inbox()[0].conversation.id));
assert.equal(inbox()[0].unreadCount, 0);
await retried(() => a.followThread(mine.get().thread.id, false));
assert.equal(mine.get().thread.viewerFollows, false);
await until("no longer in the inbox", () => !inbox().length);
b.send(general.id, { text: "third reply", threadOf: hello });
await until("a reply in a thread that is only open", () => texts(mine).includes("third reply"));
done("threads, their inbox, and replies that are also in the channel");

const wanted = texts(first);
for (let n = 0; n < 100; n += 1) a.send(general.id, { text: `message ${n}` });
wanted.push(...Array.from({ length: 100 }, (_, n) => `message ${n}`));
while (first.get().pending.length) {
  cut();
  await sleep(400);
}
await until("all arrive", () => [first, second].every((history) => texts(history).length === wanted.length));
for (const history of [first, second]) assert.deepEqual(texts(history), wanted);
await until("the count of who is elsewhere", () => channelOf(views[2]).unreadCount === 101);
done("nothing is lost or doubled in a channel while connections are cut");

const d = signIn(ben.name, { device: { deviceId: "third", deviceType: "WEB" } });
const history = d.messages(general.id);
const close = history.subscribe(() => {});
await until("it is open", () => texts(history).at(-1) === "message 99");
close();
await sleep(1_500);
for (const text of ["while", "it was", "closed"]) a.send(general.id, { text });
wanted.push("while", "it was", "closed");
await until("these are stored", () => texts(second).at(-1) === "closed");
assert.equal(texts(history).at(-1), "message 99");
open(history);
await until("what was missed", () => texts(history).at(-1) === "closed");
while (history.get().hasOlder) await retried(() => history.loadOlder());
assert.deepEqual(texts(history), wanted);
done("a channel that is opened again continues where it was closed");

const kick = "mutation ($workspace: ID!, $user: ID!) { kickMember(workspaceId: $workspace, userId: $user) }";
await ann.ask(kick, { workspace: workspace.id, user: ben.name });
await until("nothing more to see", () => second.get().status === "failed" && second.get().error.code === "NOT_FOUND");
assert.deepEqual(second.get().messages, []);
await until("no workspace", () => !b.workspaces.get().length);
await assert.rejects(retried(() => b.messages("c_1").jumpTo(null)), { code: "NOT_FOUND" });
assert.equal(first.get().status, "ready");
done("who is removed sees nothing more");

[...clients, c2, d].forEach((client) => client.stop());
process.exit(0);
