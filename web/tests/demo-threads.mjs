// Threads in the demo: the panel next to a conversation, and the list of followed threads.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { ask, check, complained, demo, eventually, fitsItsWidth, isAccessible, PHONE, run, send } from "./harness.mjs";
import { act, article, box, confirm, isActive, log, openSession } from "./pages.mjs";

let alice, bob, general, question;

const panel = (page) => page.getByRole("complementary", { name: "Thread" });
const reply = (page, text) => panel(page).getByRole("log", { name: "Replies" }).getByRole("article").filter({ hasText: text });
const replyBox = (page) => panel(page).getByRole("textbox", { name: "Reply" });
const line = (page, text) => article(page, text).getByRole("button", { name: /^\d+ repl/ });
const follow = (page) => panel(page).getByRole("button", { name: "Follow" });
const threadsLink = (page) => page.getByRole("link", { name: /^Threads/ });
const unread = (page) => threadsLink(page).evaluate((link) => Number(link.querySelector(".badge > span")?.textContent ?? 0));
const cards = (page) => page.getByRole("list", { name: "Followed threads" }).locator(".thread-card");
const card = (page, text) => cards(page).filter({ hasText: text });
const isClosed = (page) => panel(page).waitFor({ state: "detached" });
const focused = (page) => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);

async function answer(page, text) {
  await replyBox(page).fill(text);
  await page.keyboard.press("Enter");
  await reply(page, text).and(page.locator("[data-status='sent'], [data-status='delivered'], [data-status='read']")).waitFor();
}

/** Chooses from the menu of a message in the panel. */
async function actInPanel(page, text, action) {
  await reply(page, text).hover();
  await reply(page, text).getByRole("button", { name: "Actions for message" }).click();
  await page.getByRole("menuitem", { name: action, exact: true }).click();
}

/** Replies without the browser. */
async function sendReply(user, threadOf, content, more = {}) {
  const mutation = "mutation($input: SendMessageInput!) { sendMessage(input: $input) { message { id seq conversationId } } }";
  return (await ask(user, mutation, { input: { threadOf, content, idempotencyKey: randomUUID(), ...more } })).sendMessage.message;
}

async function openGeneral(user, options) {
  const page = await demo(user, options);
  await page.getByRole("link", { name: /^Lakeside Hikers/ }).click();
  await page.getByRole("link", { name: /^general/ }).click();
  await article(page, "They have character").waitFor();
  return page;
}

check("a message is answered in its thread, and the other person sees the number of replies at once", async () => {
  const { myWorkspaces } = await ask("alice", "{ myWorkspaces { edges { node { id channels { edges { node { id name } } } } } } }");
  general = myWorkspaces.edges[0].node.channels.edges.find(({ node }) => node.name === "general").node.id;
  [alice, bob] = [await openGeneral("alice"), await openGeneral("bob")];
  question = await send("bob", general, "Who brings a kettle?");
  await act(alice, "Who brings a kettle?", "Reply in thread");
  await panel(alice).getByText("No replies yet.").waitFor();
  await eventually(async () => assert.equal(await focused(alice), "Reply"));
  assert.equal(await line(bob, "Who brings a kettle?").count(), 0);
  await answer(alice, "I have one");
  await article(bob, "Who brings a kettle?").getByRole("button", { name: /^1 reply Last reply / }).click();
  await reply(bob, "I have one").waitFor();
  await answer(bob, "Does it whistle?");
  await reply(alice, "Does it whistle?").waitFor();
  for (const page of [alice, bob]) await article(page, "Who brings a kettle?").getByRole("button", { name: /^2 replies/ }).waitFor();
  assert.equal(await article(alice, "Does it whistle?").count(), 0);
  await isAccessible(alice);
});

check("in the panel, replies are quoted, mention people, get reactions, and are edited and recalled", async () => {
  await actInPanel(bob, "I have one", "Reply");
  await replyBox(bob).pressSequentially("@Ali");
  await bob.getByRole("option", { name: "Alice Archer" }).waitFor();
  await bob.keyboard.press("Enter");
  await replyBox(bob).pressSequentially("a red one");
  await bob.keyboard.press("Enter");
  await reply(alice, "a red one").getByText("@Alice Archer").waitFor();
  await reply(alice, "a red one").getByRole("button", { name: /I have one/ }).waitFor();
  await actInPanel(alice, "a red one", "React");
  await alice.keyboard.press("Enter");
  await reply(bob, "a red one").getByRole("button", { name: "👍 1: Alice Archer" }).waitFor();
  await actInPanel(bob, "a red one", "Edit");
  await replyBox(bob).fill("A blue one?");
  await bob.keyboard.press("Enter");
  await reply(alice, "A blue one?").getByText("edited").waitFor();
  await actInPanel(bob, "A blue one?", "Recall");
  await confirm(bob, "Recall this message?", "Recall");
  await eventually(async () => assert.equal(await reply(alice, "A blue one?").count(), 0));
  await article(alice, "Who brings a kettle?").getByRole("button", { name: /^2 replies/ }).waitFor();
  await actInPanel(alice, "Who brings a kettle?", "React");
  await alice.keyboard.press("Enter");
  await article(bob, "Who brings a kettle?").getByRole("button", { name: "👍 1: Alice Archer" }).waitFor();
});

check("the thread is in the address, and what was written stays when the panel is closed", async () => {
  await replyBox(alice).fill("A draft");
  await alice.getByRole("button", { name: "Close thread" }).click();
  await isClosed(alice);
  assert.ok(alice.url().endsWith(`/c/${general}`));
  await alice.goBack();
  await reply(alice, "Does it whistle?").waitFor();
  assert.equal(await replyBox(alice).inputValue(), "A draft");
  assert.ok(alice.url().endsWith(`/c/${general}/t/${question.seq}`));
  await alice.reload();
  await reply(alice, "Does it whistle?").waitFor();
  await article(alice, "Who brings a kettle?").waitFor();
  await alice.goto(`${alice.url().split("#")[0]}#/c/t_${question.seq}_${general}`);
  await reply(alice, "Does it whistle?").waitFor();
});

check("Escape closes the panel, and the focus returns to where it was", async () => {
  await panel(bob).getByRole("button", { name: "Close thread" }).click();
  await isClosed(bob);
  await line(bob, "Who brings a kettle?").focus();
  await bob.keyboard.press("Enter");
  await eventually(async () => assert.equal(await focused(bob), "Reply"));
  await bob.keyboard.press("Escape");
  await isClosed(bob);
  await eventually(async () => assert.match(await focused(bob), /^.*\d replies/));
  await bob.keyboard.press("Enter");
  await eventually(async () => assert.equal(await focused(bob), "Reply"));
  await box(bob).press("Escape");
  await isClosed(bob);
  await article(bob, "Who brings a kettle?").waitFor();
});

check("a reply may be sent to the channel too, and leads to its thread from there", async () => {
  await panel(alice).getByRole("checkbox", { name: "Also send to #general" }).check();
  await answer(alice, "It whistles in C");
  assert.equal(await panel(alice).getByRole("checkbox").isChecked(), false);
  await article(bob, "It whistles in C").getByRole("button", { name: "Replied in a thread" }).click();
  await reply(bob, "It whistles in C").waitFor();
  assert.equal(await line(bob, "It whistles in C").count(), 0);
  await answer(bob, "Then I bring tea");
  await reply(alice, "Then I bring tea").waitFor();
  assert.equal(await article(alice, "Then I bring tea").count(), 0);
});

check("the first reply of a thread may have a file", async () => {
  await send("alice", general, "Do we have a photo of the hut?");
  await act(bob, "Do we have a photo of the hut?", "Reply in thread");
  await replyBox(bob).waitFor();
  await panel(bob).locator("input[type=file]").setInputFiles({ name: "hut.txt", mimeType: "text/plain", buffer: Buffer.from("a hut") });
  await answer(bob, "Only a drawing");
  await article(alice, "Do we have a photo of the hut?").getByRole("button", { name: /^1 reply/ }).click();
  await reply(alice, "Only a drawing").getByText("hut.txt").waitFor();
});

check("followed threads are listed with what is unread, and reading on one device clears it on the other", async () => {
  const [carol, second] = [await demo("carol", { device: "one" }), await demo("carol", { device: "two" })];
  await Promise.all([carol, second].map(isActive));
  const before = await unread(carol);
  await threadsLink(carol).click();
  await cards(carol).first().waitFor();
  await isAccessible(carol);
  await sendReply("bob", question.id, "Carol, sugar?", { mentions: ["carol"] });
  await card(carol, "Who brings a kettle?").getByText("Carol, sugar?").waitFor();
  await sendReply("alice", question.id, "Carol takes none");
  for (const page of [carol, second]) await eventually(async () => assert.equal(await unread(page), before + 2));
  assert.match(await cards(carol).first().textContent(), /#general.*Lakeside Hikers.*Who brings a kettle\?.*more replies.*Carol takes none/);
  await card(carol, "Who brings a kettle?").getByRole("link", { name: "#general Who brings a kettle?, 2 unread" }).click();
  await carol.bringToFront();
  await reply(carol, "Carol takes none").waitFor();
  await article(carol, "Who brings a kettle?").waitFor();
  for (const page of [carol, second]) await eventually(async () => assert.equal(await unread(page), before));
  await carol.goBack();
  await card(carol, "Who brings a kettle?").and(carol.locator(":not(.unread)")).waitFor();
  await second.context().close();
  await carol.context().close();
});

check("a thread is followed by who writes in it, and can be unfollowed", async () => {
  const dave = await demo("dave", { path: `#/c/${general}/t/${question.seq}` });
  await reply(dave, "Then I bring tea").waitFor();
  assert.equal(await follow(dave).getAttribute("aria-pressed"), "false");
  await sendReply("bob", question.id, "Biscuits?");
  await reply(dave, "Biscuits?").waitFor();
  await answer(dave, "Yes, biscuits");
  await dave.locator(".follow[aria-pressed=true]").waitFor();
  const before = await unread(dave);
  await panel(dave).getByRole("button", { name: "Close thread" }).click();
  await sendReply("bob", question.id, "Chocolate ones");
  await eventually(async () => assert.equal(await unread(dave), before + 1));
  await threadsLink(dave).click();
  await card(dave, "Who brings a kettle?").getByRole("button", { name: /^Actions for thread/ }).click();
  await dave.getByRole("menuitem", { name: "Unfollow thread" }).click();
  await eventually(async () => assert.equal(await card(dave, "Who brings a kettle?").count(), 0));
  await eventually(async () => assert.equal(await unread(dave), before));
  await dave.goBack();
  await line(dave, "Who brings a kettle?").click();
  await dave.locator(".follow[aria-pressed=false]").click();
  await dave.locator(".follow[aria-pressed=true]").waitFor();
  await dave.context().close();
});

check("all threads are marked as read at once", async () => {
  await sendReply("bob", question.id, "Enough now");
  const erin = await demo("erin");
  await isActive(erin);
  await threadsLink(erin).click();
  const ofErin = await sendReply("erin", question.id, "One more");
  await sendReply("bob", question.id, "The last one");
  await eventually(async () => assert.ok((await unread(erin)) > 0));
  await erin.getByRole("button", { name: "Mark all as read" }).click();
  await eventually(async () => assert.equal(await unread(erin), 0));
  await erin.getByText("All read").waitFor();
  assert.ok(ofErin.conversationId.startsWith("t_"));
  await erin.context().close();
});

check("in a locked thread only its moderators and the author of its message write", async () => {
  await alice.goto(`${alice.url().split("#")[0]}#/c/${general}/t/${question.seq}`);
  await panel(alice).getByRole("button", { name: "Actions for thread" }).click();
  await alice.getByRole("menuitem", { name: "Lock thread" }).click();
  const dave = await demo("dave", { path: `#/c/${general}/t/${question.seq}` });
  await panel(dave).getByText("This thread is locked.").waitFor();
  assert.equal(await replyBox(dave).count(), 0);
  await panel(alice).getByRole("button", { name: "Actions for thread" }).click();
  await alice.getByRole("menuitem", { name: "Unlock thread" }).click();
  await replyBox(dave).waitFor();
  await dave.context().close();
});

check("groups and private conversations have threads, too", async () => {
  await bob.goto(`${bob.url().split("#")[0]}#/`);
  await openSession(bob, "Alice Archer");
  const asked = await send("alice", "bob", "Is the kettle clean?");
  await act(bob, "Is the kettle clean?", "Reply in thread");
  await answer(bob, "It was, once");
  await alice.goto(`${alice.url().split("#")[0]}#/c/${asked.conversationId}`);
  await line(alice, "Is the kettle clean?").click();
  await reply(alice, "It was, once").waitFor();
  await panel(alice).getByRole("checkbox", { name: "Also send to Bob Baker" }).waitFor();
  await alice.goto(`${alice.url().split("#")[0]}#/`);
  await openSession(alice, "Weekend hike");
  await line(alice, "I have the sandwiches").click();
  await reply(alice, "One is for the ducks.").waitFor();
});

check("a long thread opens at its newest replies, and leads to its beginning", async () => {
  const { id, seq } = await send("alice", general, "Count the stones on the path");
  await sendReply("alice", id, "Stone number 1");
  for (let count = 2; count < 160; count += 20) await Promise.all(Array.from({ length: 20 }, (_, more) => sendReply("alice", id, `Stone number ${count + more}`)));
  await sendReply("alice", id, "The last stone");
  await bob.goto(`${bob.url().split("#")[0]}#/c/${general}/t/${seq}`);
  await reply(bob, "The last stone").waitFor();
  await panel(bob).getByRole("button", { name: "Alice Archer Count the stones" }).click();
  await reply(bob, "Count the stones").waitFor();
  await panel(bob).getByText("Stone number 1", { exact: true }).waitFor();
  await panel(bob).getByRole("button", { name: "Alice Archer Count the stones" }).waitFor({ state: "detached" });
});

check("opening a thread keeps its message in view", async () => {
  await bob.goto(`${bob.url().split("#")[0]}#/`);
  await openSession(bob, "Alice Archer");
  const first = await send("bob", "alice", "A message that many words follow");
  for (let count = 1; count <= 8; count += 1) await send("bob", "alice", `${count}: ${"many words that wrap on a narrow screen ".repeat(8)}`);
  await sendReply("alice", first.id, "Too many");
  await article(bob, "8: many words").waitFor(); // The list scrolls to each own message.
  await line(bob, "A message that many words follow").scrollIntoViewIfNeeded();
  await line(bob, "A message that many words follow").click();
  await reply(bob, "Too many").waitFor();
  await eventually(async () => {
    const [list, shown] = await Promise.all([log(bob).boundingBox(), line(bob, "A message that many words follow").boundingBox()]);
    assert.ok(shown.y >= list.y && shown.y + shown.height <= list.y + list.height + 1, JSON.stringify({ list, shown }));
  });
});

check("an unknown thread says so", async () => {
  await alice.goto(`${alice.url().split("#")[0]}#/c/${general}/t/99999`);
  await panel(alice).getByText("There is no such thread").waitFor();
});

check("on a phone a thread fills the screen, and the messages below it stay unread", async () => {
  const phone = await demo("erin", { viewport: PHONE, hasTouch: true, isMobile: true, colorScheme: "dark" });
  await isActive(phone);
  await phone.getByRole("link", { name: /^Lakeside Hikers/ }).tap();
  await phone.getByRole("link", { name: /^general/ }).tap();
  await line(phone, "Who brings a kettle?").scrollIntoViewIfNeeded();
  await line(phone, "Who brings a kettle?").tap();
  await reply(phone, "The last one").waitFor();
  const { width, height } = await panel(phone).boundingBox();
  assert.deepEqual([width, height], [PHONE.width, PHONE.height]);
  await fitsItsWidth(phone);
  await isAccessible(phone);
  const sessionOf = async (id) => (await ask("erin", "query($id: ID!) { session(conversationId: $id) { readSeq unreadCount } }", { id })).session;
  const before = (await sessionOf(general)).readSeq;
  const { seq } = await send("bob", general, "A message that nobody sees");
  await sendReply("bob", question.id, "A reply that is seen");
  await reply(phone, "A reply that is seen").waitFor();
  await eventually(async () => assert.equal((await sessionOf(`t_${question.seq}_${general}`)).unreadCount, 0));
  assert.equal((await sessionOf(general)).readSeq, before);
  await panel(phone).getByRole("button", { name: "Back to the conversation" }).tap();
  await isClosed(phone);
  await phone.bringToFront();
  await article(phone, "A message that nobody sees").scrollIntoViewIfNeeded();
  await eventually(async () => assert.equal((await sessionOf(general)).readSeq, seq));
  await phone.getByRole("button", { name: "Back", exact: true }).tap();
  await threadsLink(phone).tap();
  await cards(phone).first().waitFor();
  await fitsItsWidth(phone);
  await isAccessible(phone);
  await card(phone, "Who brings a kettle?").getByRole("link").tap();
  await panel(phone).getByRole("button", { name: "Back to the threads" }).tap();
  await cards(phone).first().waitFor();
  await phone.context().close();
});

check("nothing complained", () => assert.deepEqual(complained(), []));

await run();
