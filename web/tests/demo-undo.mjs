// Undo in the demo: the message with its button, by pointer, by keys, and in time.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, fitsItsWidth, isAccessible, PHONE, run, send } from "./harness.mjs";
import { box, choose, isActive, openSession, row, rows, rowThatSays, undo } from "./pages.mjs";

let alice;

const session = async (id) => (await ask("alice", `{ session(conversationId: "${id}") { status priority muteStatus mutedUntil categoryId } }`)).session;
const said = (page, words) => page.getByRole("status").getByText(words);
const bar = (page) => page.locator(".undo");

check("Undo restores the state from before muting and pinning", async () => {
  alice = await demo("alice");
  await isActive(alice);
  await choose(alice, "Dave Dyer", "Mute for an hour");
  await rowThatSays(alice, "Dave Dyer", /muted/).waitFor();
  const { mutedUntil } = await session("p_alice_dave");
  await choose(alice, "Dave Dyer", "Unmute");
  await said(alice, "Dave Dyer unmuted").waitFor();
  await isAccessible(alice);
  await undo(alice);
  await eventually(async () => assert.equal((await session("p_alice_dave")).mutedUntil, mutedUntil));
  await choose(alice, "Dave Dyer", "Pin");
  await eventually(async () => assert.match((await rows(alice))[0], /^Dave Dyer/));
  await alice.locator("body").press("Control+z");
  await eventually(async () => assert.equal((await session("p_alice_dave")).priority, 0));
  await bar(alice).waitFor({ state: "detached" });
});

check("a move to a folder can be undone", async () => {
  await choose(alice, "Dave Dyer", "Move to folder…");
  await alice.getByRole("dialog").getByRole("button", { name: "family" }).click();
  await said(alice, "Dave Dyer moved to family").waitFor();
  assert.equal((await session("p_alice_dave")).categoryId, "family");
  await undo(alice);
  await eventually(async () => assert.equal((await session("p_alice_dave")).categoryId, "work"));
});

check("a deleted conversation leaves the list without a confirmation, and is deleted only when Undo is no longer offered", async () => {
  await choose(alice, "Trail Bot", "Delete");
  await row(alice, "Trail Bot").waitFor({ state: "detached" });
  assert.equal(await alice.getByRole("alertdialog").count(), 0);
  assert.equal((await session("p_alice_trailbot")).status, "ACTIVE");
  await undo(alice);
  await row(alice, "Trail Bot").waitFor();
  assert.equal((await session("p_alice_trailbot")).status, "ACTIVE");
});

check("the message stays while it has the focus, Escape closes it, and then the deletion is final", async () => {
  await openSession(alice, "Bob Baker");
  await choose(alice, "Trail Bot", "Delete");
  await box(alice).focus();
  await bar(alice).getByRole("button", { name: "Undo" }).focus();
  await alice.waitForTimeout(9_000); // Longer than it stays without the focus.
  assert.ok(await bar(alice).isVisible());
  assert.equal((await session("p_alice_trailbot")).status, "ACTIVE");
  await alice.keyboard.press("Escape");
  await bar(alice).waitFor({ state: "detached" });
  assert.ok(await box(alice).evaluate((element) => element === document.activeElement));
  await eventually(async () => assert.equal((await session("p_alice_trailbot")).status, "INVALID"));
  assert.equal(await row(alice, "Trail Bot").count(), 0);
});

check("the message disappears after a time, and the deletion is final", async () => {
  await choose(alice, "Office", "Delete");
  await bar(alice).waitFor();
  await alice.mouse.move(5, 400);
  await bar(alice).waitFor({ state: "detached" });
  const { myGroups } = await ask("alice", "{ myGroups { edges { node { id name } } } }");
  const office = myGroups.edges.find(({ node }) => node.name === "Office").node.id;
  await eventually(async () => assert.equal((await session(office)).status, "INVALID"));
});

check("a conversation in which somebody writes meanwhile stays", async () => {
  await choose(alice, "Erin Archer", "Delete");
  await row(alice, "Erin Archer").waitFor({ state: "detached" });
  await send("erin", "alice", "Wait, one more thing");
  await row(alice, "Erin Archer").waitFor();
  await bar(alice).getByRole("button", { name: "Close this message" }).click();
  await bar(alice).waitFor({ state: "detached" });
  await row(alice, "Erin Archer").waitFor();
  assert.equal((await session("p_alice_erin")).status, "ACTIVE");
});

check("a page that is closed deletes what was deleted in it", async () => {
  const page = await demo("bob");
  await isActive(page);
  await choose(page, "Dave Dyer", "Delete");
  await row(page, "Dave Dyer").waitFor({ state: "detached" });
  await page.goto("about:blank");
  const status = async () => (await ask("bob", '{ session(conversationId: "p_bob_dave") { status } }')).session.status;
  await eventually(async () => assert.equal(await status(), "INVALID"));
  await page.context().close();
});

check("the keys for Undo act on the text while the user writes", async () => {
  await openSession(alice, "Bob Baker");
  await choose(alice, "Bob Baker", "Mute");
  await said(alice, "Bob Baker muted").waitFor();
  await box(alice).fill("Draft");
  await box(alice).press("Control+z");
  assert.ok(await bar(alice).isVisible());
  assert.ok((await session("p_alice_bob")).muteStatus);
});

check("the message fits a phone, also in dark colours", async () => {
  const phone = await demo("dave", { viewport: PHONE, colorScheme: "dark", hasTouch: true });
  await isActive(phone);
  await choose(phone, "Alice Archer", "Delete");
  await bar(phone).waitFor();
  await fitsItsWidth(phone);
  await isAccessible(phone);
  await undo(phone);
  await row(phone, "Alice Archer").waitFor();
});

check("no browser reported an error", () => assert.deepEqual(complained(), []));

await run();
