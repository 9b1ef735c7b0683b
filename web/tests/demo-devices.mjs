// The demo on two devices of one person: a change on one appears on the other.
import assert from "node:assert/strict";

import { ask, check, complained, eventually, open, run, send } from "./harness.mjs";
import { article, box, choose, openSession, row, rows, rowThatSays, write } from "./pages.mjs";

let page, left, right;

const said = async (device, title) => (await rows(device)).find((each) => each.startsWith(title)) ?? "";
const saysNot = (device, title, what) => eventually(async () => assert.doesNotMatch(await said(device, title), what));

check("both devices show the same list, pinned ones first", async () => {
  page = await open("/demo", { name: "two devices", viewport: { width: 2000, height: 800 } });
  await page.getByRole("link", { name: "Two devices side by side" }).click();
  [left, right] = ["Left device", "Right device"].map((title) => page.frameLocator(`iframe[title="${title}"]`));
  for (const device of [left, right]) await row(device, "Bob Baker").waitFor();
  await eventually(async () => assert.deepEqual(await rows(left), await rows(right)));
  assert.match((await rows(left))[0], /^Bob Baker.*pinned/);
});

check("reading on the left reads on the right", async () => {
  await send("dave", "alice", "Did you see this?");
  for (const device of [left, right]) await rowThatSays(device, "Dave Dyer", /1 unread/).waitFor();
  await openSession(left, "Dave Dyer");
  await article(left, "Did you see this?").waitFor();
  await saysNot(right, "Dave Dyer", /unread/);
});

check("a message sent on the left appears on the right as one's own", async () => {
  await openSession(right, "Dave Dyer");
  await write(left, "Yes, just now");
  await article(right, "Yes, just now").waitFor();
  assert.ok(await article(right, "Yes, just now").getAttribute("data-status"));
});

check("messages received while the conversation is open stay read on both", async () => {
  const { seq, conversationId } = await send("dave", "alice", "And this?");
  for (const device of [left, right]) await article(device, "And this?").waitFor();
  // The rows say nothing for a moment before they are unread, too.
  const readSeq = async () => (await ask("alice", "query($id: ID!) { session(conversationId: $id) { readSeq } }", { id: conversationId })).session.readSeq;
  await eventually(async () => assert.equal(await readSeq(), seq));
  for (const device of [left, right]) await saysNot(device, "Dave Dyer", /unread/);
  for (const device of [left, right]) await openSession(device, "Carol Cook");
});

check("pinning on the left pins on the right, above all unpinned sessions", async () => {
  await choose(left, "Erin Archer", "Pin");
  await rowThatSays(right, "Erin Archer", /pinned/).waitFor();
  for (const device of [left, right]) {
    await eventually(async () => {
      const pinned = (await rows(device)).map((name) => name.includes("pinned"));
      assert.deepEqual(pinned, [true, true, ...pinned.slice(2).map(() => false)]);
    });
  }
  await choose(right, "Erin Archer", "Unpin");
  await saysNot(left, "Erin Archer", /pinned/);
});

check("muting on the left mutes on the right and leaves the total", async () => {
  await send("erin", "alice", "Ping");
  await rowThatSays(right, "Erin Archer", /1 unread/).waitFor();
  const before = (await ask("alice", "{ totalUnread }")).totalUnread;
  await choose(left, "Erin Archer", "Mute");
  await rowThatSays(right, "Erin Archer", /1 unread.*muted/).waitFor();
  assert.equal((await ask("alice", "{ totalUnread }")).totalUnread, before - 1);
  await eventually(async () => {
    for (const frame of page.frames().slice(1)) assert.equal(await frame.title(), `(${before - 1}) Confab`);
  });
  await choose(right, "Erin Archer", "Unmute");
  await saysNot(left, "Erin Archer", /muted/);
});

check("marking as unread on the right shows a dot on the left until it is opened", async () => {
  await choose(right, "Dave Dyer", "Mark as unread");
  await rowThatSays(left, "Dave Dyer", /marked as unread/).waitFor();
  await openSession(left, "Dave Dyer");
  await saysNot(right, "Dave Dyer", /unread/);
  await openSession(left, "Carol Cook");
});

check("a folder made on the left appears on the right with its sessions", async () => {
  await choose(left, "Carol Cook", "Move to folder…");
  const dialog = left.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "New folder" }).fill("climbing");
  await dialog.getByRole("button", { name: "Move" }).click();
  await right.getByRole("tab", { name: /^climbing/ }).click();
  await eventually(async () => assert.deepEqual((await rows(right)).map((name) => name.split(",")[0]), ["Carol Cook"]));
  await choose(right, "Carol Cook", "Move to folder…");
  await right.getByRole("dialog").getByRole("button", { name: "No folder" }).click();
  await eventually(async () => assert.equal(await left.getByRole("tab", { name: /^climbing/ }).count(), 0));
  await row(right, "Bob Baker").waitFor();
});

check("deleting on the left removes on the right, and the next message brings it back", async () => {
  await openSession(left, "Dave Dyer");
  await choose(left, "Erin Archer", "Delete");
  await left.getByRole("button", { name: "Close this message" }).click();
  for (const device of [left, right]) await eventually(async () => assert.equal(await row(device, "Erin Archer").count(), 0));
  await send("erin", "alice", "Still there?");
  for (const device of [left, right]) await row(device, "Erin Archer").waitFor();
});

check("a nested list opens and leads back", async () => {
  await openSession(left, "shop");
  await row(left, "Corner Bakery").waitFor();
  assert.equal(await row(left, "Bob Baker").count(), 0);
  await left.getByRole("link", { name: "Back to all sessions" }).click();
  await row(left, "Bob Baker").waitFor();
});

check("each device may belong to another person", async () => {
  await page.getByRole("region", { name: "Right device" }).getByRole("combobox").selectOption({ label: "Dave Dyer" });
  await openSession(right, "Alice Archer");
  await openSession(left, "Dave Dyer");
  await box(right).pressSequentially("Hm");
  await left.getByRole("main").getByText("Dave is typing…").waitFor();
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
