// Channels of the demo: notifications, reading on several devices, moderators, and empty lists.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, fitsItsWidth, isAccessible, open, PHONE, run, send, tokenOf } from "./harness.mjs";
import { act, article, box, bubble, channel, chooseOfChannel, confirm, isActive, openWorkspace, undo, write } from "./pages.mjs";

let alice, phone, bob, ids;

const workspace = async () => (await ask("alice", "{ myWorkspaces { edges { node { id channels { edges { node { id name } } } } } } }")).myWorkspaces.edges[0].node;
const session = async (name, user = "alice") =>
  (await ask(user, `{ session(conversationId: "${ids[name]}") { muteStatus mutedUntil notifications readCount } }`)).session;
const isMuted = (page, name) => channel(page, name).getByRole("img", { name: "muted" });
const unread = (page, name) => channel(page, name).evaluate((link) => Number(link.querySelector(".badge")?.textContent ?? 0));
const dialog = (page, name) => page.getByRole("dialog", { name: `Notifications for ${name}` });
const workspaceMenu = async (page, item) => {
  await page.getByRole("button", { name: "Workspace menu" }).click();
  await page.getByRole("menuitem", { name: item, exact: true }).click();
};

check("a channel is muted from its row on all devices of the user, looks muted, and is unmuted by Undo", async () => {
  const { id, channels } = await workspace();
  ids = { workspace: id, ...Object.fromEntries(channels.edges.map(({ node }) => [node.name, node.id])) };
  [alice, phone] = [await demo("alice"), await demo("alice", { device: "phone", viewport: PHONE, colorScheme: "dark" })];
  for (const page of [alice, phone]) {
    await isActive(page);
    await openWorkspace(page);
  }
  const before = await unread(alice, "lake");
  assert.ok(before > 0);
  await chooseOfChannel(alice, "lake", "Mute");
  for (const page of [alice, phone]) await isMuted(page, "lake").waitFor();
  assert.equal(await channel(alice, "lake").locator(".badge.muted").textContent(), String(before));
  assert.ok((await session("lake")).muteStatus);
  await isAccessible(alice);
  await isAccessible(phone);
  await fitsItsWidth(phone);
  await undo(alice);
  for (const page of [alice, phone]) await isMuted(page, "lake").waitFor({ state: "detached" });
});

check("the header of a channel opens its level and mutes that end by themselves", async () => {
  await channel(alice, "lake").click();
  await alice.getByRole("main").getByRole("button", { name: "Notifications", exact: true }).click();
  await dialog(alice, "#lake").getByRole("combobox", { name: "Muted" }).selectOption("For 8 hours");
  await isMuted(phone, "lake").waitFor();
  const hours = (Date.parse((await session("lake")).mutedUntil) - Date.now()) / 3_600_000;
  assert.ok(hours > 7.9 && hours <= 8, String(hours));
  await isAccessible(alice, { within: "dialog" });
  await dialog(alice, "#lake").getByRole("combobox", { name: "Muted" }).selectOption("No");
  await isMuted(phone, "lake").waitFor({ state: "detached" });
  await dialog(alice, "#lake").getByRole("button", { name: /^Mentions only/ }).click();
  await dialog(alice, "#lake").waitFor({ state: "detached" });
  assert.equal((await session("lake")).notifications, "MENTIONS");
  await alice.getByRole("main").getByRole("button", { name: "Notifications", exact: true }).click();
  await dialog(alice, "#lake").getByRole("button", { name: /^Mentions only/, pressed: true }).waitFor();
  await dialog(alice, "#lake").getByRole("button", { name: /^As in the workspace/ }).click();
  await eventually(async () => assert.equal((await session("lake")).notifications, "ALL"));
});

check("channels without a level of their own have that of the workspace", async () => {
  await workspaceMenu(phone, "Notifications…");
  await dialog(phone, "Lakeside Hikers").getByRole("button", { name: /^All messages/, pressed: true }).waitFor();
  await dialog(phone, "Lakeside Hikers").getByRole("button", { name: /^Nothing/ }).click();
  await dialog(phone, "Lakeside Hikers").waitFor({ state: "detached" });
  assert.equal((await session("lake")).notifications, "NONE");
  await chooseOfChannel(phone, "lake", "Notifications…");
  await dialog(phone, "#lake").getByRole("button", { name: /^Nothing/, pressed: true }).waitFor();
  await fitsItsWidth(phone);
  await phone.keyboard.press("Escape");
  await workspaceMenu(phone, "Notifications…");
  await dialog(phone, "Lakeside Hikers").getByRole("button", { name: /^As in your settings/ }).click();
  await eventually(async () => assert.equal((await session("lake")).notifications, "ALL"));
});

check("all channels of a category are muted together, and unmuted by one Undo", async () => {
  await alice.getByRole("heading", { name: "Trips" }).hover();
  await alice.getByRole("button", { name: "Actions for Trips" }).click();
  await alice.getByRole("menuitem", { name: "Mute all channels" }).click();
  for (const name of ["lake", "planning"]) await isMuted(phone, name).waitFor();
  await undo(alice);
  for (const name of ["lake", "planning"]) await isMuted(phone, name).waitFor({ state: "detached" });
});

check("what is read on one device is read on the other, also after the network was away", async () => {
  await send("bob", ids.general, "Who has seen my lamp?");
  await eventually(async () => assert.ok((await unread(alice, "general")) > 0));
  await channel(phone, "general").click();
  await phone.bringToFront();
  await phone.getByRole("button", { name: /^To the newest message/ }).click().catch(() => {});
  await article(phone, "Who has seen my lamp?").scrollIntoViewIfNeeded();
  await eventually(async () => assert.equal(await unread(alice, "general"), 0));
  await send("bob", ids.planning, "The guides meet at six");
  await eventually(async () => assert.ok((await unread(alice, "planning")) > 0));
  await alice.context().setOffline(true);
  await alice.locator("[data-connection='Active']").waitFor({ state: "detached" });
  await ask("alice", `mutation { markRead(conversationId: "${ids.planning}") { id } }`);
  await alice.context().setOffline(false);
  await isActive(alice);
  await eventually(async () => assert.equal(await unread(alice, "planning"), 0));
});

check("everything in a workspace is marked as read at once", async () => {
  await send("bob", ids.planning, "And bring a torch");
  await eventually(async () => assert.ok((await unread(alice, "planning")) > 0));
  await workspaceMenu(alice, "Mark all as read");
  await eventually(async () => assert.equal(await unread(alice, "planning"), 0));
});

check("a channel is marked as unread as a reminder, on all devices", async () => {
  const sign = (page) => channel(page, "planning").getByRole("img", { name: "marked as unread" });
  await phone.getByRole("button", { name: "Back", exact: true }).click();
  await chooseOfChannel(alice, "planning", "Mark as unread");
  for (const page of [alice, phone]) await sign(page).waitFor();
  await chooseOfChannel(alice, "planning", "Mark as read");
  for (const page of [alice, phone]) await sign(page).waitFor({ state: "detached" });
});

check("an unfollowed channel has no unread count, and Undo follows it again", async () => {
  await chooseOfChannel(alice, "lake", "Unfollow");
  const follows = async () => (await ask("alice", `{ channel(id: "${ids.lake}") { viewerFollows } }`)).channel.viewerFollows;
  await alice.getByRole("status").getByText("You no longer follow #lake").waitFor();
  assert.equal(await follows(), false);
  await undo(alice);
  await eventually(async () => assert.equal(await follows(), true));
});

check("a moderator recalls another person's message in a channel after a confirmation; others may not", async () => {
  await send("dave", ids.general, "Cheap boats, call me");
  bob = await demo("bob");
  await isActive(bob);
  await openWorkspace(bob);
  await channel(bob, "general").click();
  await act(bob, "Cheap boats", "Recall");
  await confirm(bob, "Recall this message?", "Recall");
  await eventually(async () => assert.equal(await bubble(bob, "Cheap boats").count(), 0));
  const erin = await demo("erin");
  await isActive(erin);
  await openWorkspace(erin);
  await channel(erin, "general").click();
  await bubble(erin, "Who has seen my lamp?").hover();
  await bubble(erin, "Who has seen my lamp?").getByRole("button", { name: "Actions for message" }).click();
  assert.ok(!(await erin.getByRole("menuitem").allTextContents()).includes("Recall"));
  await erin.context().close();
});

check("a new channel shows its topic and what to do", async () => {
  await workspaceMenu(alice, "New channel…");
  const form = alice.getByRole("dialog", { name: "New channel" });
  await form.getByRole("textbox", { name: "Name" }).fill("photos");
  await form.getByRole("textbox", { name: "Topic, optional" }).fill("Only the good ones");
  await isAccessible(alice, { within: "dialog" });
  await form.getByRole("button", { name: "Create" }).click();
  const main = alice.getByRole("main", { name: "photos" });
  await main.getByText("This is the beginning of #photos").waitFor();
  await main.getByText("Only the good ones").last().waitFor();
  await isAccessible(alice);
  await channel(alice, "photos").waitFor();
  await write(alice, "A first one");
  await article(alice, "A first one").waitFor();
  assert.equal(await main.getByText("This is the beginning of #photos").count(), 0);
});

check("an archived channel is closed and opened again for everybody at once", async () => {
  await channel(bob, "photos").click();
  await box(bob).waitFor();
  await chooseOfChannel(alice, "photos", "Archive");
  for (const page of [alice, bob]) {
    await page.getByText("This channel is archived.").waitFor();
    await channel(page, "photos").waitFor({ state: "detached" });
  }
  assert.equal(await bob.getByRole("button", { name: "Open it again" }).count(), 0);
  await undo(alice);
  for (const page of [alice, bob]) {
    await box(page).waitFor();
    await channel(page, "photos").waitFor();
  }
  await chooseOfChannel(alice, "photos", "Archive");
  await alice.getByRole("button", { name: "Open it again" }).click();
  await box(bob).waitFor();
});

check("a new workspace, and a list without conversations, show what to do next", async () => {
  await ask("erin", 'mutation { createWorkspace(input: {name: "Choir"}) { id } }');
  const erin = await demo("erin");
  await erin.getByRole("link", { name: /^Choir/ }).click();
  const create = erin.getByRole("button", { name: "Create a channel" });
  await create.waitFor();
  await isAccessible(erin);
  await create.click();
  await erin.getByRole("dialog", { name: "New channel" }).waitFor();
  await erin.context().close();

  const token = tokenOf("newcomer");
  const page = await open(`/demo#token=${token}`, { name: "newcomer" });
  await page.getByText("No conversations yet").waitFor();
  await isAccessible(page);
  await page.getByRole("button", { name: "New conversation" }).last().click();
  await page.getByRole("dialog", { name: "New conversation" }).waitFor();
  assert.equal(await box(page).count(), 0);
});

check("no browser reported an error", () => assert.deepEqual(complained(), []));

await run();
