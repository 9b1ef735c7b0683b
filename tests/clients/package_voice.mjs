// Voice channels and requests over the WebSocket of the package @confab/client against a real server.
import assert from "node:assert/strict";
import { CuttableSocket, cut, Disk, done, open, retried, signIn } from "./package_parts.mjs";
import { cuttable, Person, sleep, until } from "./scenario.mjs";

const [ann, ben] = ["ann", "ben"].map((name) => new Person(name));
for (const each of [ann, ben]) await each.ask("{ me { id } }");
const { createWorkspace: workspace } = await ben.ask('mutation { createWorkspace(input: { name: "Team", isOpen: true }) { id } }');
const create = "mutation ($input: CreateChannelInput!) { createChannel(input: $input) { id } }";
const channel = async (name) => (await ben.ask(create, { input: { workspaceId: workspace.id, name, kind: "VOICE" } })).createChannel.id;
const [talk, other] = [await channel("talk"), await channel("other")];
await ann.ask("mutation ($id: ID!) { joinWorkspace(workspaceId: $id) { id } }", { id: workspace.id });
const disk = new Disk();
let a = signIn(ann.name, { storage: disk });
const b = signIn(ben.name);
const seen = open(b.workspace(workspace.id));
const statesIn = (id) => seen.get().channels.find((each) => each.id === id)?.voiceStates ?? [];
const usersIn = (id) => statesIn(id).map(({ user }) => user.id);
await until("both are active", () => [a, b].every((client) => client.state.get() === "Active") && seen.get().status === "ready");
assert.equal(a.voiceChannelId.get(), null);

const joined = await retried(() => a.joinVoice(talk, { selfMute: true }));
assert.deepEqual([joined.state.channelId, joined.state.selfMute, joined.url, joined.token], [talk, true, null, null]);
assert.equal(a.voiceChannelId.get(), talk);
await until("others see it", () => usersIn(talk).join() === ann.name);
const changed = await retried(() => a.updateVoice({ selfMute: false, selfDeaf: true }));
assert.deepEqual([changed.selfMute, changed.selfDeaf], [false, true]);
await until("others see the change", () => statesIn(talk)[0]?.selfDeaf === true);
assert.equal(a.voiceChannelId.get(), talk);
await retried(() => a.joinVoice(other));
assert.equal(a.voiceChannelId.get(), other);
await until("others see the move", () => usersIn(other).join() === ann.name && !usersIn(talk).length);
await assert.rejects(retried(() => a.joinVoice("c_1")), { code: "NOT_FOUND" });
assert.equal(a.voiceChannelId.get(), other);
done("joins, changes and moves");

cut();
await until("connected again", () => a.state.get() === "Active" && a.isConnected.get());
assert.equal(a.voiceChannelId.get(), other, "a lost connection changes nothing");
a.stop();
a = signIn(ann.name, { storage: disk });
assert.equal(a.voiceChannelId.get(), other, "nor does a page that is loaded again");
const own = open(a.workspace(workspace.id));
await until("active again", () => a.state.get() === "Active" && own.get().status === "ready");
await sleep(300);
assert.equal(a.voiceChannelId.get(), other);
await retried(a.leaveVoice);
assert.equal(a.voiceChannelId.get(), null);
assert.equal(disk.length, 0);
await until("others see it", () => !usersIn(other).length);
await retried(a.leaveVoice);
done("the channel is known after a lost connection and a restart, until the user leaves");

await retried(() => a.joinVoice(talk));
const moderate = "mutation ($channelId: ID!, $userId: ID!) { moderateVoice(channelId: $channelId, userId: $userId, disconnect: true) { channelId } }";
await ben.ask(moderate, { channelId: talk, userId: ann.name });
await until("a moderator ended it", () => a.voiceChannelId.get() === null);
await retried(() => a.joinVoice(talk));
assert.equal(a.voiceChannelId.get(), talk, "it can be joined again");
const a2 = signIn(ann.name, { device: { deviceId: "another", deviceType: "WEB" }, storage: new Disk() });
await retried(() => a2.joinVoice(talk));
await until("another device has taken over", () => a.voiceChannelId.get() === null && a2.voiceChannelId.get() === talk);
await retried(a2.leaveVoice);
await until("nobody is there", () => !usersIn(talk).length);
// It ends while the page is closed.
const disk3 = new Disk();
const device = { deviceId: "third", deviceType: "WEB" };
const first = signIn(ann.name, { storage: disk3, device });
await retried(() => first.joinVoice(other));
first.stop();
await until("others see it", () => usersIn(other).join() === ann.name);
await ben.ask(moderate, { channelId: other, userId: ann.name });
const second = signIn(ann.name, { storage: disk3, device });
assert.equal(second.voiceChannelId.get(), other);
await until("it has ended", () => second.voiceChannelId.get() === null);
assert.equal(disk3.length, 0);
[second, a2].forEach((client) => client.stop());
done("a state that others end");

// The answer is lost with the socket: the call rejects, and nothing is repeated.
const sent = [];
const way = await cuttable();
const fragile = signIn(ann.name, {
  url: way.url,
  storage: new Disk(),
  device: { deviceId: "fragile", deviceType: "WEB" },
  webSocket: class extends CuttableSocket {
    send(data, ...more) {
      sent.push(String(data));
      super.send(data, ...more);
    }
  },
});
await until("active", () => fragile.state.get() === "Active");
way.deaf = true;
const leave = { name: "Leave", text: "mutation Leave { leaveVoice }" };
const lost = fragile.api.request(leave, {}, { overWebSocket: true }).then(() => "left", (error) => error);
await until("it was sent", () => sent.some((data) => data.includes("mutation Leave")));
way.deaf = false;
way.cut();
const error = await lost;
assert.deepEqual([error.code, error.isRetryable], ["NETWORK", true]);
await until("connected again", () => fragile.state.get() === "Active" && fragile.isConnected.get());
await sleep(500);
assert.equal(sent.filter((data) => data.includes("mutation Leave")).length, 1);
way.away = true;
way.cut();
await until("not connected", () => !fragile.isConnected.get());
await assert.rejects(fragile.leaveVoice(), { code: "NETWORK", isRetryable: true });
const canceled = new AbortController();
const waiting = fragile.api.request(leave, {}, { overWebSocket: true, signal: canceled.signal });
canceled.abort(new Error("no longer needed"));
await assert.rejects(waiting, { message: "no longer needed" });
const stopped = fragile.api.request(leave, {}, { overWebSocket: true });
fragile.stop();
await assert.rejects(stopped, { code: "STOPPED" });
way.close();
done("a request over the WebSocket is not repeated on the next one");
[a, b].forEach((client) => client.stop());
process.exit(0);
