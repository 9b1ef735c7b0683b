// Long histories of the package @confab/client against a real server: only a part of them stays in memory.
import assert from "node:assert/strict";
import { done, open, retried, signIn, texts } from "./package_parts.mjs";
import { Person, until } from "./scenario.mjs";

const MOST = 350;
const [ann, ben, carol] = ["ann", "ben", "carol"].map((name) => new Person(name));
for (const each of [ann, ben, carol]) await each.ask("{ me { id } }");
const { createGroup: group } = await ann.ask("mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }", { input: { name: "long", memberIds: [ben.name, carol.name] } });
const send = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id seq } } }";
const writes = async (person, content) => (await person.ask(send, { input: { conversationId: group.id, content } })).sendMessage.message;
const wanted = [];
const seqs = new Map();
const write = async (person, content) => {
  wanted.push(content);
  seqs.set(content, (await writes(person, content)).seq);
};
for (let n = 0; n < 450; n += 1) await write(n < 60 ? ann : ben, `message ${n}`);

const a = signIn(ann.name);
const history = open(a.messages(group.id));
await until("the newest messages", () => history.get().status === "ready");
const seen = new Set();
const walk = async (edge, move) => {
  for (;;) {
    const shown = texts(history);
    const from = wanted.indexOf(shown[0]);
    assert.deepEqual(shown, wanted.slice(from, from + shown.length), "there is a gap");
    assert.ok(shown.length <= MOST, `${shown.length} messages`);
    shown.forEach((text) => seen.add(text));
    if (!history.get()[edge]) return;
    await retried(move);
  }
};
await walk("hasOlder", history.loadOlder);
assert.equal(texts(history)[0], "message 0");
assert.equal(seen.size, wanted.length);
assert.equal(history.get().hasNewer, true, "the newest messages were removed");
done("older messages replace the newest ones");

// Ticks of messages that are far from the newest one. Ben has read them: he has written since.
const tick = (text) => history.get().messages.find(({ content }) => content === text).delivery;
assert.deepEqual([tick("message 3").readCount, tick("message 3").status], [1, "SENT"]);
const read = "mutation ($id: ID!, $seq: Int!) { markRead(conversationId: $id, upToSeq: $seq) { id } }";
await carol.ask(read, { id: group.id, seq: seqs.get("message 50") });
await until("ticks that say read", () => tick("message 3").status === "READ" && tick("message 50").status === "READ");
assert.equal(tick("message 51").readCount, 1);
done("ticks of the messages on the screen, wherever they are");

for (let n = 450; n < 460; n += 1) await write(ben, `message ${n}`);
a.send(group.id, { text: "own" });
wanted.push("own");
await until("it is stored", async () => (await ann.ask("query ($id: ID!) { messages(conversationId: $id, last: 1) { edges { node { content } } } }", { id: group.id })).messages.edges[0].node.content === "own");
assert.equal(texts(history)[0], "message 0");
assert.equal(history.get().hasNewer, true);
seen.clear();
await walk("hasNewer", history.loadNewer);
assert.equal(seen.size, wanted.length, "messages that arrived meanwhile are in the history");
assert.equal(texts(history).at(-1), "own");
assert.equal(history.get().hasOlder, true);
await write(ben, "live");
await until("a live message", () => texts(history).at(-1) === "live");
await retried(() => history.jumpTo(seqs.get("message 5")));
assert.ok(texts(history).includes("message 5"));
await retried(() => history.jumpTo(null));
assert.equal(texts(history).at(-1), "live");
done("what was removed is loaded again, with all that came meanwhile");
a.stop();
process.exit(0);
