// The demo, used by two people who write to each other.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, open, run, send } from "./harness.mjs";
import { act, article, box, confirm, log, openSession, row, rows, rowThatSays, status, write } from "./pages.mjs";

let alice, bob;

check("one click on the sign-in page signs in", async () => {
  alice = await open("/demo", { name: "alice" });
  await alice.getByRole("button", { name: "Sign in as Alice Archer" }).click();
  await row(alice, "Bob Baker").waitFor();
});

check("a message appears in the other person's list at once, with a count, above older ones", async () => {
  bob = await demo("bob");
  await row(bob, "Alice Archer").waitFor();
  await ask("bob", 'mutation { sendMessage(input: {toUserId: "carol", content: "newer"}) { message { id } } }');
  await openSession(alice, "Bob Baker");
  await write(alice, "Are you there?");
  await rowThatSays(bob, "Alice Archer", /1 unread/).waitFor();
  await row(bob, "Alice Archer").getByText("Are you there?").waitFor();
  assert.match((await rows(bob)).filter((said) => !said.includes("pinned"))[0], /^Alice Archer/);
  await eventually(async () => assert.match(await bob.title(), /^\(\d+\) /));
});

check("two ticks are grey after delivery and blue after reading", async () => {
  await eventually(async () => assert.equal(await status(alice, "Are you there?"), "delivered"));
  const tick = article(alice, "Are you there?").getByRole("img");
  assert.equal(await tick.getAttribute("aria-label"), "Delivered");
  const colour = async () => (await tick.evaluate((each) => getComputedStyle(each).stroke)).match(/\d+/g).map(Number);
  const isBlue = ([red, green, blue]) => blue > 1.5 * red && blue - red > 60 && blue >= green;
  assert.ok(!isBlue(await colour()));
  await openSession(bob, "Alice Archer");
  await eventually(async () => assert.equal(await status(alice, "Are you there?"), "read"));
  assert.equal(await tick.getAttribute("aria-label"), "Read");
  await eventually(async () => assert.ok(isBlue(await colour()), String(await colour())));
});

check("a message to an offline person has one tick", async () => {
  await ask("alice", 'mutation { sendMessage(input: {toUserId: "carol", content: "For later"}) { message { id } } }');
  await openSession(alice, "Carol Cook");
  await eventually(async () => assert.equal(await status(alice, "For later"), "sent"));
  await openSession(alice, "Bob Baker");
});

check("the pressed row opens even if the list changes its order before the pointer is released", async () => {
  const unpinned = async () => (await rows(alice)).map((said) => said.split(",")).filter(([, ...marks]) => !marks.includes(" pinned")).map(([title]) => title);
  await eventually(async () => assert.equal((await unpinned())[0], "Carol Cook"));
  await row(alice, "Carol Cook").hover();
  await alice.mouse.down();
  const acknowledged = alice.waitForResponse((response) => response.request().postData()?.includes("AckDelivered"));
  await send("dave", "alice", "First in the list");
  await (await acknowledged).finished();
  await alice.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  assert.equal((await unpinned())[0], "Carol Cook");
  await alice.mouse.up();
  await alice.getByRole("heading", { name: "Carol Cook" }).waitFor();
  await eventually(async () => assert.deepEqual((await unpinned()).slice(0, 2), ["Dave Dyer", "Carol Cook"]));
  await openSession(alice, "Bob Baker");
});

check("the typing person is named until the message arrives", async () => {
  await box(bob).pressSequentially("I am");
  await alice.getByRole("main").getByRole("status").filter({ hasText: "Bob is typing…" }).waitFor();
  await write(bob, "I am here");
  await article(alice, "I am here").waitFor();
  await eventually(async () => assert.equal(await alice.getByRole("main").getByText("is typing").count(), 0));
});

check("a person who clears the text is not named any longer", async () => {
  for (const page of [alice, bob]) await openSession(page, "Weekend hike");
  const typing = alice.getByRole("main").getByText("Bob is typing…");
  await box(bob).pressSequentially("Well");
  await typing.waitFor();
  await box(bob).fill("");
  // Without that, the name would be displayed for 8 s.
  await eventually(async () => assert.equal(await typing.count(), 0), 6_000);
  await openSession(alice, "Bob Baker");
  await openSession(bob, "Alice Archer");
});

check("messages read while the page is visible count as read", async () => {
  await eventually(async () => assert.ok((await rows(alice)).some((said) => said.startsWith("Bob Baker") && !said.includes("unread"))));
});

check("arrow up edits the last message, and the other person sees the change", async () => {
  await box(alice).press("ArrowUp");
  assert.equal(await box(alice).inputValue(), "Are you there?");
  await box(alice).fill("Are you up there?");
  await box(alice).press("Enter");
  await article(bob, "Are you up there?").getByText("edited").waitFor();
  // The other person may see the change before its author gets the answer.
  await eventually(async () => assert.equal(await box(alice).inputValue(), ""));
  await box(alice).press("ArrowUp");
  assert.equal(await box(alice).inputValue(), "Are you up there?");
  await box(alice).press("Escape");
  assert.equal(await box(alice).inputValue(), "");
});

check("a reply shows the quoted message", async () => {
  await act(bob, "Are you up there?", "Reply");
  await write(bob, "Up on the roof");
  await article(alice, "Up on the roof").getByText("Are you up there?").waitFor();
});

check("a recalled message disappears for both", async () => {
  await write(alice, "This was a mistake");
  await article(bob, "This was a mistake").waitFor();
  await act(alice, "This was a mistake", "Recall");
  await confirm(alice, "Recall this message?", "Recall");
  for (const page of [alice, bob]) {
    await eventually(async () => assert.equal(await article(page, "This was a mistake").count(), 0));
    await log(page).getByText(/recalled/i).first().waitFor();
  }
});

check("a new group appears in all members' lists at once", async () => {
  await alice.getByRole("button", { name: "New group" }).click();
  const dialog = alice.getByRole("dialog", { name: "New group" });
  await dialog.getByRole("textbox", { name: "Name" }).fill("Roof club");
  await dialog.getByRole("checkbox", { name: "Bob Baker" }).check();
  await dialog.getByRole("checkbox", { name: "Carol Cook" }).check();
  await dialog.getByRole("button", { name: "Create" }).click();
  await alice.getByRole("heading", { name: "Roof club" }).waitFor();
  await row(bob, "Roof club").waitFor();
});

check("an at sign offers the members, and the chosen one is notified", async () => {
  await box(alice).pressSequentially("Hey @bo");
  await alice.getByRole("option", { name: "Bob Baker" }).waitFor();
  await box(alice).press("Enter");
  assert.match(await box(alice).inputValue(), /^Hey @Bob Baker /);
  await box(alice).pressSequentially("look up");
  assert.equal(await box(alice).inputValue(), "Hey @Bob Baker look up");
  await box(alice).press("Enter");
  await rowThatSays(bob, "Roof club", /1 mention/).waitFor();
});

check("a group's new name and picture, and a new role in it, appear at once", async () => {
  const id = alice.url().split("/c/")[1];
  const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await bob.context().route("https://pictures.example/**", (route) => route.fulfill({ contentType: "image/png", body: pixel }));
  const change = (input) => ask("alice", "mutation($id: ID!, $input: UpdateGroupInput!) { updateGroup(groupId: $id, input: $input) { id } }", { id, input });
  await openSession(bob, "Roof club");
  await change({ name: "Roof party", avatarUrl: "https://pictures.example/roof.png" });
  await bob.getByRole("heading", { name: "Roof party" }).waitFor();
  await row(bob, "Roof party").locator("img.loaded").waitFor();
  await bob.getByRole("button", { name: "Group info" }).click();
  const own = bob.getByRole("dialog").getByRole("listitem").filter({ hasText: /^You/ });
  await own.waitFor();
  await ask("alice", 'mutation($id: ID!) { setMemberRole(groupId: $id, userId: "bob", role: ADMIN) { id } }', { id });
  await own.getByText("Admin").waitFor();
  await bob.keyboard.press("Escape");
  await change({ name: "Roof club" });
  await bob.getByRole("heading", { name: "Roof club" }).waitFor();
});

check("a group shows who has read a message", async () => {
  await openSession(bob, "Roof club");
  await article(bob, "look up").waitFor();
  await act(alice, "look up", "Info");
  const receipts = alice.getByRole("dialog").getByRole("list", { name: "Receipts" });
  await receipts.getByRole("listitem").filter({ hasText: "Bob Baker" }).filter({ hasText: "Read" }).waitFor();
  await receipts.getByRole("listitem").filter({ hasText: "Carol Cook" }).filter({ hasText: "Sent" }).waitFor();
  await alice.keyboard.press("Escape");
});

check("a removed member keeps the history and cannot write", async () => {
  await alice.getByRole("button", { name: "Group info" }).click();
  await alice.getByRole("dialog").getByRole("button", { name: "Actions for Bob Baker" }).click();
  await alice.getByRole("menuitem", { name: "Remove" }).click();
  await confirm(alice, "Remove Bob Baker from Roof club?", "Remove");
  await eventually(async () => assert.equal(await box(bob).count(), 0));
  await article(bob, "look up").waitFor();
  await alice.keyboard.press("Escape");
});

check("a new conversation begins with its first message", async () => {
  await bob.getByRole("button", { name: "New conversation" }).click();
  await bob.getByRole("dialog").getByRole("button", { name: "Carol Cook" }).click();
  await write(bob, "Hello Carol");
  await row(bob, "Carol Cook").getByText("Hello Carol").waitFor();
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
