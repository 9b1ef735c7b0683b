// What is in and below a message of the demo: its markup, and reactions.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, isAccessible, open, PHONE, run, send } from "./harness.mjs";
import { act, article, log, openSession } from "./pages.mjs";

let alice, bob;

const chips = (page, text) => article(page, text).getByRole("group", { name: "Reactions" }).getByRole("button");
const labels = (page, text) => chips(page, text).evaluateAll((all) => all.map((each) => `${each.ariaLabel}${each.ariaPressed === "true" ? " (own)" : ""}`));

check("markup is shown, and hostile text stays text", async () => {
  [alice, bob] = [await demo("alice"), await open("/demo?as=bob", { name: "bob", viewport: PHONE, hasTouch: true })];
  await openSession(bob, "Alice Archer");
  await send("alice", "bob", "**Important**: see [our map](https://maps.example.org/lake) and `lake.json`\n- one\n- two");
  const message = article(bob, "Important");
  await message.getByRole("strong").getByText("Important", { exact: true }).waitFor();
  assert.deepEqual(await message.getByRole("listitem").allTextContents(), ["one", "two"]);
  const link = message.getByRole("link");
  assert.equal(await link.textContent(), "our map (maps.example.org)");
  assert.equal(await link.getAttribute("href"), "https://maps.example.org/lake");
  const hostile = "<img src=x onerror=\"window.attacked=1\"> [click](javascript:window.attacked=1)";
  await send("alice", "bob", hostile);
  await eventually(async () => assert.equal(await log(bob).locator("article .text").last().textContent(), hostile));
  assert.equal(await article(bob, "onerror").locator("img, a").count(), 0);
  assert.equal(await bob.evaluate(() => window.attacked), undefined);
});

check("the list shows the text of a message without its markup", async () => {
  await send("alice", "carol", "_Quiet_ **please**");
  await alice.getByRole("link", { name: /^Carol Cook/ }).getByText("Quiet please").waitFor();
});

check("a reaction chosen by its name appears for both, and the other person joins it with a tap", async () => {
  await openSession(alice, "Bob Baker");
  await act(alice, "Important", "React");
  const picker = alice.getByRole("dialog", { name: "Choose an emoji" });
  await isAccessible(alice);
  await picker.getByRole("searchbox").fill("heart lo");
  await alice.keyboard.press("Enter");
  await picker.waitFor({ state: "detached" });
  await eventually(async () => assert.deepEqual(await labels(bob, "Important"), ["❤️ 1: Alice Archer"]));
  await chips(bob, "Important").first().tap();
  await eventually(async () => assert.deepEqual(await labels(alice, "Important"), ["❤️ 2: You, Bob Baker (own)"]));
});

check("the picker is used with the arrow keys, and Escape gives the focus back", async () => {
  await act(alice, "Important", "React");
  await alice.keyboard.press("ArrowDown");
  await alice.keyboard.press("ArrowRight");
  await alice.keyboard.press("Escape");
  await alice.getByRole("dialog", { name: "Choose an emoji" }).waitFor({ state: "detached" });
  assert.equal(await alice.evaluate(() => document.activeElement.ariaLabel), "Actions for message");
  await act(alice, "Important", "React");
  for (const key of ["ArrowDown", "ArrowRight", "ArrowRight", "Enter"]) await alice.keyboard.press(key);
  await eventually(async () => assert.deepEqual(await labels(bob, "Important"), ["❤️ 2: You, Alice Archer (own)", "😂 1: Alice Archer"]));
});

check("one's own reaction is taken back with a click, and the others stay after a reload", async () => {
  await chips(alice, "Important").first().click();
  await eventually(async () => assert.deepEqual(await labels(bob, "Important"), ["❤️ 1: You (own)", "😂 1: Alice Archer"]));
  await alice.reload();
  await eventually(async () => assert.deepEqual(await labels(alice, "Important"), ["❤️ 1: Bob Baker", "😂 1: You (own)"]));
});

check("a message that was seen is read, also if the conversation is left at once", async () => {
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await alice.context().route("**/graphql", async (route) => {
    if (route.request().postData()?.includes("markRead")) await held;
    await route.continue();
  });
  await openSession(alice, "Dave Dyer");
  await send("dave", "alice", "The first to be seen");
  await article(alice, "The first to be seen").waitFor();
  const { seq, conversationId } = await send("dave", "alice", "The second to be seen");
  await article(alice, "The second to be seen").waitFor();
  await openSession(alice, "Carol Cook");
  release();
  const readSeq = async () => (await ask("alice", "query($id: ID!) { session(conversationId: $id) { readSeq } }", { id: conversationId })).session.readSeq;
  await eventually(async () => assert.equal(await readSeq(), seq));
});

check("nothing complained", () => assert.deepEqual(complained(), []));

await run();
