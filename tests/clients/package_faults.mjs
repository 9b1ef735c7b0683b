// Failures of a user's device: @confab/client against a real server.
import assert from "node:assert/strict";
import { createClient, privateId } from "../web/client/index.mjs";
import { CuttableSocket, cut, Disk, done, open, retried, signIn, sockets, texts } from "./package_parts.mjs";
import { answerOnce, BUSY, cuttable, jwt, loseAnswers, Person, server, sleep, until } from "./scenario.mjs";

const [ann, ben] = [new Person("ann"), new Person("ben")];
await ann.ask("{ me { id } }");
await ben.ask("{ me { id } }");
const conversation = privateId(ann.name, ben.name);
/** The stored texts; none before the first message. */
const stored = () => ben.contents(conversation).catch(() => []);
const wanted = [];

const way = await cuttable();
const disk = new Disk();
const away = signIn(ann.name, { url: way.url, storage: disk });
const history = open(away.messages(conversation));
await until("the client is active", () => away.state.get() === "Active");
way.away = true;
way.cut();
for (const text of ["one", "two", "three"]) away.send(conversation, { text });
wanted.push("one", "two", "three");
assert.deepEqual(history.get().pending.map(({ draft }) => draft.text), wanted);
away.stop();
assert.equal(disk.length, 3);
disk.setItem([...disk.entries.keys()][0].replace(/[^.]*$/, "broken"), "{"); // Another program's mistake.
way.away = false;
const back = signIn(ann.name, { url: way.url, storage: disk });
open(back.messages(conversation));
await until("what was written before the restart", async () => (await stored()).length === 3);
assert.deepEqual(await stored(), wanted);
await until("an empty disk", () => disk.length === 1);
back.stop();
way.close();
done("unsent messages survive a restart, in order");

class FullDisk extends Disk {
  setItem() { throw new DOMException("full", "QuotaExceededError"); }
}
class ForbiddenDisk {
  get length() { throw new DOMException("forbidden", "SecurityError"); }
  key() { return this.length; }
  getItem() { return this.length; }
  setItem() { return this.length; }
  removeItem() { return this.length; }
}
for (const [name, storage] of Object.entries({ full: new FullDisk(), forbidden: new ForbiddenDisk() })) {
  const client = signIn(ann.name, { storage });
  const shown = open(client.messages(conversation));
  client.send(conversation, { text: name });
  wanted.push(name);
  assert.equal(shown.get().pending.length, 1);
  await until(`the message on a ${name} disk`, async () => (await stored()).includes(name));
  await until("nothing waits", () => !shown.get().pending.length && texts(shown).at(-1) === name);
  client.stop();
}
done("a full or forbidden disk loses nothing while the page is open");

// Two tabs with one disk. Node.js has no locks: the server stores each key once.
const shared = new Disk();
const tabs = [signIn(ann.name, { storage: shared }), signIn(ann.name, { storage: shared })];
const shown = tabs.map((tab) => open(tab.messages(conversation)));
for (let n = 0; n < 20; n += 1) tabs[n % 2].send(conversation, { text: `tab ${n % 2}, ${n}` });
await until("all of both tabs", async () => (await stored()).length === wanted.length + 20);
await until("both show them once", () => shown.every((each) => texts(each).length === wanted.length + 20 && !each.get().pending.length));
for (const tab of [0, 1]) {
  const own = (await stored()).filter((text) => text.startsWith(`tab ${tab}`));
  assert.deepEqual(own, Array.from({ length: 10 }, (_, n) => `tab ${tab}, ${2 * n + tab}`));
}
wanted.push(...(await stored()).slice(wanted.length));
tabs.forEach((tab) => tab.stop());
done("two tabs of one person send each message once");

const now = Date.now;
for (const hours of [-1, 1]) {
  Date.now = () => now() + hours * 3600_000;
  // Sign-in services say how long a token lasts, and the client's clock says until when.
  const token = { token: jwtNow(ann.name), userId: ann.name, expiresAt: Date.now() + 3600_000 };
  const client = signIn(ann.name, { tokens: { current: () => token, renew: async () => token }, storage: new Disk() });
  const late = open(client.messages(conversation));
  await until("active with a wrong clock", () => client.state.get() === "Active");
  client.send(conversation, { text: `${hours} h` });
  wanted.push(`${hours} h`);
  await until("the message", () => texts(late).at(-1) === `${hours} h` && !late.get().pending.length);
  await retried(() => client.markRead(conversation));
  assert.ok(Math.abs(client.api.now() - now()) < 5_000, "the server's clock");
  client.stop();
}
Date.now = now;
function jwtNow(user) {
  const shifted = Date.now;
  Date.now = now;
  try {
    return jwt(user);
  } finally {
    Date.now = shifted;
  }
}
done("a clock an hour off changes nothing");

let renewals = 0;
let mayRenew = true;
const short = (seconds) => ({ token: jwt(ann.name, seconds), userId: ann.name, expiresAt: Date.now() + seconds * 1000 });
let token = short(3600);
let signedOut = null;
const sleepy = signIn(ann.name, {
  storage: new Disk(),
  tokens: {
    current: () => token,
    renew: async () => {
      renewals += 1;
      if (mayRenew === "offline") throw new TypeError("no network");
      if (!mayRenew) return null;
      return (token = short(3600));
    },
  },
  onSignedOut: (why) => (signedOut = why),
});
const slept = open(sleepy.messages(conversation));
await until("active", () => sleepy.state.get() === "Active");
// The laptop sleeps: the token expires, and the socket is dead.
token = short(-10);
cut();
await ben.send(ann.name, "while it slept");
wanted.push("while it slept");
await until("awake again", () => texts(slept).at(-1) === "while it slept" && sleepy.state.get() === "Active");
assert.ok(renewals >= 1);
// A server whose keys were changed refuses a token that looks valid.
token = { ...short(3600), token: `${jwt(ann.name)}x` };
sleepy.send(conversation, { text: "with another token" });
wanted.push("with another token");
await until("sent with another token", async () => (await stored()).at(-1) === "with another token");
mayRenew = "offline";
token = short(-10);
sleepy.send(conversation, { text: "later" });
await sleep(300);
assert.equal(slept.get().pending.at(-1).failure, null);
mayRenew = true;
wanted.push("later");
await until("sent when a token can be had", async () => (await stored()).at(-1) === "later");
mayRenew = false;
token = short(-10);
cut();
await until("signed out", () => signedOut !== null && sleepy.state.get() === "Disconnected");
done("a token that expires while the laptop sleeps is renewed; without one the user is signed out");

const flaky = signIn(ann.name, { storage: new Disk() });
const flakily = open(flaky.messages(conversation));
await until("active", () => flaky.state.get() === "Active" && flakily.get().status === "ready");
loseAnswers(3);
flaky.send(conversation, { text: "lost answers" });
wanted.push("lost answers");
await until("stored once", () => !flakily.get().pending.length && texts(flakily).at(-1) === "lost answers");
answerOnce(BUSY);
await flaky.api.request({ name: "Me", text: "{ me { id } }" }, {}).catch((error) => assert.equal(error.isRetryable, true));
await assert.rejects(retried(() => flaky.edit("m_1", "x")), { code: "NOT_FOUND", isRetryable: false });
flaky.send(conversation, { text: "x".repeat(4001) });
await until("a refusal", () => flakily.get().pending[0]?.failure);
flaky.send(conversation, { text: "after a refused one" });
wanted.push("after a refused one");
await until("the next one", () => texts(flakily).at(-1) === "after a refused one");
const [refused] = flakily.get().pending;
flaky.retry(refused.key);
await until("refused again", () => flakily.get().pending[0]?.failure && flakily.get().pending[0].key !== refused.key);
flaky.discard(flakily.get().pending[0].key);
assert.deepEqual(flakily.get().pending, []);
done("lost answers and refusals");

const nonsense = createClient({
  url: server,
  tokens: { current: () => ({ token: jwt(ann.name), userId: ann.name, expiresAt: now() + 3600_000 }), renew: async () => null },
  device: { deviceId: "forgetful", deviceType: "WEB" },
  webSocket: class extends CuttableSocket {
    /** After a break, cursors cannot be resumed. */
    send(data, ...more) {
      super.send(resetting ? String(data).replace(/"since":"[^"]*"/, '"since":"nonsense"') : data, ...more);
    }
  },
  storage: new Disk(),
});
let resetting = false;
const reset = open(nonsense.messages(conversation));
await until("active", () => nonsense.state.get() === "Active" && reset.get().status === "ready");
resetting = true;
cut();
await ben.send(ann.name, "during the reset");
wanted.push("during the reset");
await until("what could not be resumed", () => texts(reset).at(-1) === "during the reset");
resetting = false;
while (reset.get().hasOlder) await retried(() => reset.loadOlder());
assert.deepEqual(texts(reset), wanted);
assert.deepEqual(await stored(), wanted);
assert.ok(sockets.size >= 1);
done("begins anew where too much was missed");
process.exit(0);
