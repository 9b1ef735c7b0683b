// Blocking in the demo: from the profile, in a group, in the private conversation, and the list of blocked people.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, isAccessible, run, send } from "./harness.mjs";
import { article, box, log, openSession } from "./pages.mjs";

let alice;

const GROUP = 'mutation { createGroup(input: {name: "Choir", memberIds: ["alice", "dave"]}) { id } }';

check("a person is blocked from their profile, and at once unblocked by Undo", async () => {
  const { createGroup } = await ask("erin", GROUP);
  await ask("dave", "mutation ($id: ID!) { sendMessage(input: {conversationId: $id, content: \"La la la\"}) { message { id } } }", { id: createGroup.id });
  alice = await demo("alice");
  await openSession(alice, "Dave Dyer");
  await alice.getByRole("button", { name: "Profile" }).click();
  await alice.getByRole("dialog").getByRole("button", { name: "Block", exact: true }).click();
  await alice.getByRole("status").getByRole("button", { name: "Undo" }).click();
  await alice.getByRole("dialog").getByRole("button", { name: "Block", exact: true }).waitFor();
  await box(alice).waitFor();
  await alice.getByRole("dialog").getByRole("button", { name: "Block", exact: true }).click();
  await alice.getByRole("dialog").getByRole("button", { name: "Unblock", exact: true }).waitFor();
  await alice.keyboard.press("Escape");
  await alice.getByText("You have blocked Dave Dyer.").waitFor();
  assert.equal(await box(alice).count(), 0);
  await assert.rejects(send("dave", "alice", "Psst"), /BLOCKED|block/i);
});

check("in a group, messages of a blocked person are collapsed until the user shows them", async () => {
  await openSession(alice, "Choir");
  const collapsed = article(alice, "Message from Dave Dyer, blocked by you");
  await collapsed.waitFor();
  assert.equal(await log(alice).getByText("La la la").count(), 0);
  await isAccessible(alice);
  await collapsed.getByRole("button", { name: "Show" }).click();
  await log(alice).getByText("La la la").waitFor();
});

check("the list of blocked people unblocks them, also after a reload", async () => {
  await alice.reload();
  await article(alice, "blocked by you").waitFor();
  await alice.getByRole("button", { name: "More", exact: true }).click();
  await alice.getByRole("menuitem", { name: "Blocked people" }).click();
  const people = alice.getByRole("dialog", { name: "Blocked people" });
  await isAccessible(alice);
  await people.getByRole("button", { name: "Unblock Dave Dyer" }).click();
  await people.getByText("You have blocked nobody.").waitFor();
  await alice.keyboard.press("Escape");
  await log(alice).getByText("La la la").waitFor();
  await openSession(alice, "Dave Dyer");
  await box(alice).waitFor();
  await send("dave", "alice", "Psst again");
  await eventually(async () => assert.equal(await article(alice, "Psst again").count(), 1));
});

check("the list of blocked people has those whom another device has blocked", async () => {
  await ask("alice", 'mutation { blockUser(userId: "erin") { id } }');
  await alice.getByRole("button", { name: "More", exact: true }).click();
  await alice.getByRole("menuitem", { name: "Blocked people" }).click();
  await alice.getByRole("dialog", { name: "Blocked people" }).getByRole("button", { name: "Unblock Erin Archer" }).click();
  await alice.getByRole("dialog", { name: "Blocked people" }).getByText("You have blocked nobody.").waitFor();
  await alice.keyboard.press("Escape");
});

check("no browser reported an error", () => assert.deepEqual(complained(), []));

await run();
