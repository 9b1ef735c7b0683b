// Text channels of a workspace in the demo: the list with what is unread, reading, writing, mentions and reactions.
import assert from "node:assert/strict";

import { check, complained, demo, eventually, isAccessible, run } from "./harness.mjs";
import { act, article, box, rows, write } from "./pages.mjs";

let alice, bob;

const channel = (page, name) => page.getByRole("link", { name: new RegExp(`^${name}\\b`) });
const unread = (page, name) => channel(page, name).evaluate((link) => Number(link.querySelector(".badge")?.textContent ?? 0));

async function openWorkspace(user) {
  const page = await demo(user);
  await page.getByRole("link", { name: /^Lakeside Hikers/ }).click();
  await channel(page, "general").waitFor();
  return page;
}

check("a workspace lists its text channels by category, and not those that are hidden from the user", async () => {
  [alice, bob] = [await openWorkspace("alice"), await openWorkspace("bob")];
  const names = (page, section) => page.getByRole("region", { name: section, exact: true }).locator(".text-channels .name").allTextContents();
  assert.deepEqual(await names(alice, "Channels"), ["general"]);
  assert.deepEqual(await names(alice, "Trips"), ["lake", "planning"]);
  const erin = await openWorkspace("erin");
  assert.deepEqual(await names(erin, "Trips"), ["lake"]);
  await erin.context().close();
});

check("a message written in a channel counts as unread for others until they see it", async () => {
  const before = await unread(bob, "general");
  await channel(alice, "general").click();
  await write(alice, "Who has seen the **map**?");
  await eventually(async () => assert.equal(await unread(bob, "general"), before + 1));
  await channel(bob, "general").click();
  await bob.getByRole("button", { name: "To the newest message" }).click().catch(() => {});
  await article(bob, "Who has seen the map?").scrollIntoViewIfNeeded();
  await bob.bringToFront();
  await eventually(async () => assert.equal(await unread(bob, "general"), 0));
});

check("members are offered for mentions, and both people see replies and reactions at once", async () => {
  await act(bob, "Who has seen the map?", "Reply");
  await box(bob).pressSequentially("@Ali");
  await bob.getByRole("option", { name: "Alice Archer" }).waitFor();
  await bob.keyboard.press("Enter");
  await box(bob).pressSequentially("I have it");
  await bob.keyboard.press("Enter");
  const reply = article(alice, "I have it");
  await reply.getByText("@Alice Archer").waitFor();
  await reply.getByRole("button", { name: /Who has seen the map/ }).waitFor();
  await act(alice, "I have it", "React");
  await alice.keyboard.press("Enter");
  await article(bob, "I have it").getByRole("button", { name: "👍 1: Alice Archer" }).waitFor();
  await isAccessible(alice);
});

check("a message in a channel is edited and recalled", async () => {
  await act(bob, "I have it", "Edit");
  await box(bob).fill("I had it");
  await bob.keyboard.press("Enter");
  await article(alice, "I had it").getByText("edited").waitFor();
  await act(bob, "I had it", "Recall");
  await bob.getByRole("alertdialog").getByRole("button", { name: "Recall", exact: true }).click();
  await eventually(async () => assert.equal(await article(alice, "I had it").count(), 0));
});

check("channels are not among the conversations", async () => {
  await alice.getByRole("link", { name: "Back to all sessions" }).first().click();
  await eventually(async () => assert.ok((await rows(alice)).length > 5));
  assert.ok(!(await rows(alice)).some((said) => /general|lake/.test(said)));
});

check("no browser reported an error", () => assert.deepEqual(complained(), []));

await run();
