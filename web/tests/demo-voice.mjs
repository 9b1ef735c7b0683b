// The demo's workspaces: how many are online, and who is in which voice channel.
import assert from "node:assert/strict";

import { check, complained, demo, eventually, fitsItsWidth, isAccessible, PHONE, run } from "./harness.mjs";
import { isActive } from "./pages.mjs";

let alice, bob;

const channel = (page, name) => page.getByRole("group", { name });
const person = (page, where, name) => channel(page, where).getByRole("listitem").filter({ hasText: name });
const absent = (page, where, name) => eventually(async () => assert.equal(await person(page, where, name).count(), 0));

async function openWorkspace(page) {
  await isActive(page);
  await page.getByRole("list", { name: "Workspaces" }).getByRole("link").click();
  await page.getByRole("heading", { name: "Lakeside Hikers" }).waitFor();
}

/** Records whether a page ever shows "0 online". */
const watchForZero = (context) =>
  context.addInitScript(() => {
    const counts = () => [...document.querySelectorAll("header [role=status], .workspace-links small")];
    const look = () => (window.showedZero ||= counts().some(({ textContent }) => /^\s*0 online/.test(textContent)));
    new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true });
  });

check("a workspace shows how many are online, its voice channels and its members", async () => {
  alice = await demo("alice", { prepare: watchForZero });
  bob = await demo("bob", { prepare: watchForZero });
  for (const page of [alice, bob]) await openWorkspace(page);
  await alice.getByText(/[1-9] online · 7 members/).waitFor();
  for (const name of ["Campfire", "Summit"]) await channel(alice, name).getByRole("button", { name: "Join" }).waitFor();
  await alice.getByRole("list", { name: "Members" }).getByRole("button", { name: /^Carol Cook/ }).waitFor();
  await eventually(async () => assert.equal(await alice.locator(".people-list .dot[data-user='bob']").getAttribute("data-status"), "ONLINE"));
  await isAccessible(alice);
});

check("a workspace never shows that 0 are online", async () => {
  for (const page of [alice, bob]) assert.equal(await page.evaluate(() => window.showedZero), false);
});

check("a person who joins a voice channel is seen in it by another, and is gone after leaving", async () => {
  await channel(bob, "Campfire").getByRole("button", { name: "Join" }).click();
  await person(bob, "Campfire", "You").waitFor();
  await person(alice, "Campfire", "Bob Baker").waitFor();
  await bob.getByRole("region", { name: "Voice", exact: true }).getByText("Campfire").waitFor();
  await channel(bob, "Campfire").getByRole("button", { name: "Leave" }).click();
  await absent(alice, "Campfire", "Bob Baker");
  await absent(bob, "Campfire", "You");
});

check("muting oneself is shown to others", async () => {
  await channel(bob, "Campfire").getByRole("button", { name: "Join" }).click();
  await person(alice, "Campfire", "Bob Baker").waitFor();
  const bar = bob.getByRole("region", { name: "Voice", exact: true });
  await bar.getByRole("button", { name: "Mute" }).click();
  await person(alice, "Campfire", "Bob Baker").getByRole("img", { name: "Muted" }).waitFor();
  await bar.getByRole("button", { name: "Unmute" }).click();
  await eventually(async () => assert.equal(await person(alice, "Campfire", "Bob Baker").getByRole("img", { name: "Muted" }).count(), 0));
});

check("joining another channel leaves the first", async () => {
  await channel(bob, "Summit").getByRole("button", { name: "Join" }).click();
  await person(alice, "Summit", "Bob Baker").waitFor();
  await absent(alice, "Campfire", "Bob Baker");
});

check("a moderator mutes and disconnects a person; without the right there is no menu", async () => {
  await channel(alice, "Summit").getByRole("button", { name: "Join" }).click();
  await person(bob, "Summit", "Alice Archer").waitFor();
  assert.equal(await person(bob, "Summit", "Alice Archer").getByRole("button", { name: /^Actions/ }).count(), 0);
  const choose = async (action) => {
    await person(alice, "Summit", "Bob Baker").getByRole("button", { name: "Actions for Bob Baker" }).click();
    await alice.getByRole("menuitem", { name: action, exact: true }).click();
  };
  await choose("Mute");
  await person(bob, "Summit", "You").getByRole("img", { name: "Muted by a moderator" }).waitFor();
  await choose("Disconnect");
  await absent(alice, "Summit", "Bob Baker");
  await eventually(async () => assert.equal(await bob.getByRole("region", { name: "Voice", exact: true }).count(), 0));
});

check("a page that is loaded again is still in its channel", async () => {
  await alice.reload();
  await person(alice, "Summit", "You").waitFor();
  await alice.getByRole("region", { name: "Voice", exact: true }).getByRole("button", { name: "Leave voice" }).click();
  await absent(bob, "Summit", "Alice Archer");
});

check("a workspace fits a phone", async () => {
  await alice.setViewportSize(PHONE);
  await fitsItsWidth(alice);
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
