// The package @confab/client against a real server: two users whose connections are cut while 200 messages are sent.
import assert from "node:assert/strict";
import { privateId } from "../web/client/index.mjs";
import { cut, done, open, retried, signIn, texts } from "./package_parts.mjs";
import { Person, sleep, until } from "./scenario.mjs";

const [ann, ben] = [new Person("ann"), new Person("ben")];
await ann.ask("{ me { id } }");
await ben.ask("{ me { id } }");
const conversation = privateId(ann.name, ben.name);
const clients = [signIn(ann.name), signIn(ben.name)];
const [a, b] = clients;
const histories = clients.map((client) => client.messages(conversation));
histories.forEach(open);

await until("both are active", () => clients.every((client) => client.state.get() === "Active"));
assert.equal(a.send(conversation, { text: "hello" }).failure, null);
assert.deepEqual(histories[0].get().pending.map(({ draft }) => draft.text), ["hello"]);
await until("the other receives it", () => texts(histories[1]).includes("hello"));
await until("nothing waits", () => !histories[0].get().pending.length);
await until("it counts as unread", () => b.session(conversation).get()?.unreadCount === 1);
assert.equal(b.session(conversation).get(), b.session(conversation).get());
await retried(() => b.markRead(conversation));
assert.equal(b.session(conversation).get().unreadCount, 0);
const [{ id }] = histories[1].get().messages;
await retried(() => b.react(id, "👍"));
await until("a reaction", () => histories[0].get().messages[0].reactions[0]?.count === 1);
await until("a tick that says read", () => histories[0].get().messages[0].delivery?.status === "READ");
done("two users chat");

const wanted = ["hello", ...Array.from({ length: 200 }, (_, n) => `message ${n}`)];
for (const text of wanted.slice(1)) a.send(conversation, { text });
while (!texts(histories[0]).includes("message 199")) {
  cut();
  await sleep(400);
  if (histories[0].get().pending.length === 0) await until("the last one", () => texts(histories[0]).includes("message 199"));
}
await until("all arrive", () => histories.every((history) => texts(history).length === wanted.length));
for (const history of histories) assert.deepEqual(texts(history), wanted);
const COUNTS = "query ($id: ID!) { session(conversationId: $id) { unreadCount writeSeq readSeq activeTs } totalUnread }";
// The server may be ahead with activeTs: a receipt of the other person changes it, and the receipt's event does not
// have it. The client must not be ahead: it would ignore later changes.
const isHeld = (held, { activeTs, ...counts }) => held.activeTs <= activeTs && Object.keys(counts).every((name) => counts[name] === held[name]);
for (const [person, client] of [[ann, a], [ben, b]]) {
  let compared = [];
  const isSame = async () => {
    const { session, totalUnread } = await person.ask(COUNTS, { id: conversation });
    const held = client.session(conversation).get();
    compared = [session, totalUnread, held, client.sessions().get().totalUnread, client.state.get()];
    return isHeld(held, session) && client.sessions().get().totalUnread === totalUnread;
  };
  await until("the session that a query answers", isSame).catch((error) => {
    throw new Error(`${error.message}: ${JSON.stringify(compared)}`);
  });
}
assert.equal(b.session(conversation).get().unreadCount, 200);
done("nothing is lost or doubled while connections are cut");

const around = b.messages(conversation, { around: 20 });
around.subscribe(() => {});
await retried(() => around.jumpTo(20));
assert.ok(texts(around).includes("message 18"));
const c = signIn(ben.name);
const later = c.messages(conversation);
await retried(() => later.jumpTo(10));
assert.ok(later.get().hasNewer);
const before = later.get().messages.length;
await retried(() => later.loadNewer());
assert.ok(later.get().messages.length > before);
later.subscribe(() => {})();
assert.ok(!later.get().hasNewer, "a history that is opened again begins with the newest messages");
await retried(() => later.jumpTo(null));
assert.equal(texts(later).length, 50);
while (later.get().hasOlder) await retried(() => later.loadOlder());
assert.deepEqual(texts(later), wanted);
done("pages are joined only without a gap");
[...clients, c].forEach((client) => client.stop());
process.exit(0);
