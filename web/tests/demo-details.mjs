// Details of the demo: reading many messages, confirmations, pictures, links, times, widths, touch, and
// unusual people.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, isAccessible, open, run, send, tokenOf } from "./harness.mjs";
import { act, article, box, list, log, openSession, row, rows, write } from "./pages.mjs";

const WITH_ERIN = "p_carol_erin";
const MANY = 100;

let alice, carol;

const line = (page) => log(page).getByText("New messages", { exact: true });
const unread = async () => (await ask("carol", `{ session(conversationId: "${WITH_ERIN}") { unreadCount } }`)).session.unreadCount;
const inView = (page, place) =>
  place.evaluate((element) => {
    const [box, { top, bottom }] = [element.closest("[role=log]").getBoundingClientRect(), element.getBoundingClientRect()];
    return top >= box.top && bottom <= box.bottom;
  });

/** As if another window had the focus, or this one again. */
const look = (page, at) =>
  page.evaluate((focused) => {
    document.hasFocus = () => focused;
    dispatchEvent(new Event(focused ? "focus" : "blur"));
  }, at);

const question = (name) => alice.getByRole("alertdialog", { name });
const groupOf = async (name) => {
  const { myGroups } = await ask("alice", "{ myGroups { edges { node { id name } } } }");
  return myGroups.edges.find(({ node }) => node.name === name)?.node.id;
};

check("a conversation opens at the first unread message, and only messages on the screen become read", async () => {
  await send("carol", "erin", "Before");
  const lines = Array.from({ length: MANY }, (_, index) => `l${index}: sendMessage(input: {toUserId: "carol", content: "Line ${index}."}) { message { seq } }`);
  for (let from = 0; from < MANY; from += 30) await ask("erin", `mutation { ${lines.slice(from, from + 30).join(" ")} }`);
  carol = await demo("carol");
  await openSession(carol, "Erin Archer");
  await line(carol).waitFor();
  for (const place of [line(carol), article(carol, "Line 0."), article(carol, "Before")]) {
    await eventually(async () => assert.ok(await inView(carol, place)));
  }
  await eventually(async () => assert.ok((await unread()) < MANY));
  assert.ok((await unread()) > MANY / 2);
});

check("the button to the newest message counts the unread ones below", async () => {
  const button = carol.getByRole("button", { name: "To the newest message" });
  await eventually(async () => assert.equal(await button.getAttribute("aria-label"), `To the newest message, ${await unread()} unread messages`));
  await button.click();
  await eventually(async () => assert.ok(await inView(carol, article(carol, `Line ${MANY - 1}.`))));
  await eventually(async () => assert.equal(await unread(), 0));
});

check("the line goes when the conversation is left, and does not appear while the user is watching", async () => {
  await openSession(carol, "Alice Archer");
  await openSession(carol, "Erin Archer");
  await article(carol, `Line ${MANY - 1}.`).waitFor();
  assert.equal(await line(carol).count(), 0);
  await send("erin", WITH_ERIN, "Watched");
  await article(carol, "Watched").waitFor();
  await eventually(async () => assert.equal(await unread(), 0));
  assert.equal(await line(carol).count(), 0);
});

check("the line is above what arrived while the user was away, and a reply removes it", async () => {
  await look(carol, false);
  await send("erin", WITH_ERIN, "Away one");
  await send("erin", WITH_ERIN, "Away two");
  await article(carol, "Away two").waitFor();
  await line(carol).waitFor();
  const order = await log(carol).evaluate((box) => [...box.querySelectorAll("article .text, .new-messages")].slice(-4).map((each) => each.textContent));
  assert.deepEqual(order, ["Watched", "New messages", "Away one", "Away two"]);
  assert.equal(await unread(), 2);
  await look(carol, true);
  await eventually(async () => assert.equal(await unread(), 0));
  assert.equal(await line(carol).count(), 1);
  await write(carol, "Back again");
  await article(carol, "Back again").waitFor();
  await eventually(async () => assert.equal(await line(carol).count(), 0));
});

check("a click on a quote shows the quoted message, however old it is", async () => {
  const { messages } = await ask("erin", `{ messages(conversationId: "${WITH_ERIN}", first: 1) { edges { node { id } } } }`);
  await send("erin", WITH_ERIN, "As you said", { replyToId: messages.edges[0].node.id });
  await carol.reload();
  const first = log(carol).locator('article[data-seq="1"]');
  await article(carol, "As you said").waitFor();
  assert.equal(await first.count(), 0);
  await carol.evaluate(() => {
    window.highlighted = new Promise((resolve) => {
      const look = () => document.querySelector('article.highlighted[data-seq="1"]') && resolve();
      new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributeFilter: ["class"] });
    });
  });
  await article(carol, "As you said").locator("blockquote").getByRole("button").click();
  await first.and(carol.locator(":focus")).waitFor();
  await carol.evaluate(() => window.highlighted);
  await eventually(async () => assert.ok(await inView(carol, first)));
});

check("scrolling down from there loads everything up to the newest message, which then stays in view", async () => {
  const button = carol.getByRole("button", { name: "To the newest message" });
  const seqs = () => log(carol).getByRole("article").evaluateAll((all) => all.map((each) => Number(each.dataset.seq)));
  assert.ok((await seqs()).length < MANY);
  await send("erin", WITH_ERIN, "Not in between");
  assert.equal(await article(carol, "Not in between").count(), 0);
  const passed = new Set();
  await eventually(async () => {
    for (const each of await seqs()) passed.add(each);
    await log(carol).evaluate((box) => box.scrollBy({ top: box.clientHeight / 2, behavior: "instant" }));
    assert.equal(await button.count(), 0);
  });
  for (const each of await seqs()) passed.add(each);
  assert.deepEqual([...passed].sort((a, b) => a - b), Array.from({ length: Math.max(...passed) }, (_, index) => index + 1));
  assert.ok(await inView(carol, article(carol, "Not in between")));
  await send("erin", WITH_ERIN, "At the end");
  await article(carol, "At the end").waitFor();
  await eventually(async () => assert.ok(await inView(carol, article(carol, "At the end"))));
});

check("a message written while old ones are displayed appears at the end", async () => {
  await carol.reload();
  await article(carol, "At the end").waitFor();
  await article(carol, "As you said").locator("blockquote").getByRole("button").click();
  await log(carol).locator('article[data-seq="1"]').waitFor();
  assert.equal(await article(carol, "At the end").count(), 0);
  await write(carol, "Found it");
  await eventually(async () => assert.ok(await inView(carol, article(carol, "Found it"))));
  await article(carol, "At the end").waitFor();
});

check("an action that cannot be undone needs a confirmation, which Escape refuses", async () => {
  alice = await demo("alice");
  await openSession(alice, "Weekend hike");
  await act(alice, "I have the sandwiches", "Recall");
  await question("Recall this message?").waitFor();
  assert.equal(await alice.evaluate(() => document.activeElement.textContent), "Cancel");
  await isAccessible(alice);
  await alice.keyboard.press("Escape");
  await question("Recall this message?").waitFor({ state: "hidden" });
  assert.equal(await alice.evaluate(() => document.activeElement.getAttribute("aria-label")), "Actions for message");
  await article(alice, "I have the sandwiches").waitFor();
});

check("dismissing and leaving a group need a confirmation", async () => {
  for (const [group, verb, done] of [["Book club", "Leave", false], ["Weekend hike", "Dismiss", true]]) {
    await openSession(alice, group);
    const id = await groupOf(group);
    await alice.getByRole("button", { name: "Group info" }).click();
    const button = alice.getByRole("dialog", { name: group }).getByRole("button", { name: `${verb} group` });
    await button.click();
    await question(`${verb} ${group}?`).waitFor();
    assert.equal(await groupOf(group), id);
    await question(`${verb} ${group}?`).getByRole("button", { name: done ? `${verb} group` : "Cancel" }).click();
    await question(`${verb} ${group}?`).waitFor({ state: "hidden" });
    if (done) await eventually(async () => assert.equal(await groupOf(group), undefined));
    else assert.equal(await groupOf(group), id);
    await alice.keyboard.press("Escape");
  }
});

check("times in the list agree with its order", async () => {
  const times = () =>
    list(alice).getByRole("link").evaluateAll((links) => links.filter((link) => !/pinned/.test(link.textContent)).map((link) => Date.parse(link.querySelector("time").dateTime)));
  await ask("alice", 'mutation { pinSession(conversationId: "p_alice_dave", priority: 1) { id } }');
  await ask("alice", 'mutation { pinSession(conversationId: "p_alice_dave", priority: 0) { id } }');
  await ask("alice", 'mutation { setUnread(conversationId: "p_alice_carol") { id } }');
  await eventually(async () => {
    const titles = (await rows(alice)).filter((title) => !title.includes("pinned"));
    assert.match(titles[0], /^Carol Cook/);
    assert.match(titles[1], /^Dave Dyer/);
  });
  const shown = await times();
  assert.deepEqual(shown, [...shown].sort((a, b) => b - a));
});

check("pictures are displayed, and initials or a symbol if they cannot be loaded", async () => {
  const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await alice.context().route("https://pictures.example/**", (route) =>
    route.request().url().endsWith("/good.png") ? route.fulfill({ contentType: "image/png", body: pixel }) : route.abort(),
  );
  const make = async (name) => {
    const input = { name, memberIds: ["bob", "carol"], avatarUrl: `https://pictures.example/${name}.png` };
    const made = await ask("alice", "mutation($input: CreateGroupInput!) { createGroup(input: $input) { id } }", { input });
    await send("bob", made.createGroup.id, "Look");
  };
  for (const name of ["good", "bad"]) await make(name);
  const face = (name) => row(alice, name).locator(".avatar");
  await face("good").locator("img.loaded").waitFor();
  await face("bad").waitFor();
  await eventually(async () => assert.equal(await face("bad").locator("img").count(), 0));
  assert.equal(await face("bad").locator("svg").count(), 1);
});

check("links in messages can be followed, and only to the web", async () => {
  await openSession(alice, "Bob Baker");
  await write(alice, "See https://example.com/a_(b)?c=1. Not javascript:alert(1), <b>bold</b> or readme.md");
  const links = article(alice, "See https").getByRole("link");
  await eventually(async () => assert.equal(await links.count(), 1));
  const names = ["href", "rel", "target"];
  const found = await links.evaluate((link, wanted) => wanted.map((name) => link.getAttribute(name)), names);
  assert.deepEqual(found, ["https://example.com/a_(b)?c=1", "noopener noreferrer", "_blank"]);
  await article(alice, "<b>bold</b> or readme.md").waitFor();
});

check("bubbles stay near each other on a wide screen", async () => {
  const usual = alice.viewportSize();
  await alice.setViewportSize({ width: 2560, height: 1000 });
  await send("bob", "alice", `A long story ${"and so on ".repeat(100)}`);
  await article(alice, "A long story").waitFor();
  const edges = await log(alice).evaluate((box) => [...box.querySelectorAll(".bubble")].map((each) => each.getBoundingClientRect()).map(({ left, right }) => [left, right]));
  for (const [left, right] of edges) assert.ok(right - left <= 660, `${right - left} px`);
  const whole = Math.max(...edges.flat()) - Math.min(...edges.flat());
  assert.ok(whole <= 1100, `${whole} px`);
  await alice.setViewportSize(usual);
});

check("an unknown person has no conversation", async () => {
  await alice.getByRole("button", { name: "New conversation" }).click();
  const dialog = alice.getByRole("dialog", { name: "New conversation" });
  await dialog.getByRole("searchbox").fill("nobody");
  await dialog.getByText("There is no such person.").waitFor();
  await dialog.getByRole("searchbox").fill("carol c");
  await dialog.getByRole("list", { name: "People" }).getByRole("button", { name: "Carol Cook" }).waitFor();
  assert.equal(await dialog.getByText("There is no such person.").count(), 0);
  await alice.keyboard.press("Escape");
  await alice.evaluate(() => (location.hash = "#/c/p_alice_nobody"));
  await alice.getByRole("heading", { name: "There is no such person" }).waitFor();
  assert.equal(await box(alice).count(), 0);
});

check("people with any id can write to each other", async () => {
  const ids = ["auth0|7", "user_2N", "é/%😀~"];
  const [one, two, three] = ids;
  const path = "/p_auth0%7C7_user%5F2N";
  for (const id of ids) {
    tokenOf(id, { name: `Name of ${id}` });
    await ask(id, "{ me { id } }");
  }
  const page = await open(`/demo#token=${tokenOf(one)}`, { name: one });
  await page.getByRole("button", { name: "New conversation" }).first().click(); // An empty list has one, too.
  await page.getByRole("dialog").getByRole("searchbox").fill(two);
  await page.getByRole("dialog").getByRole("button", { name: `Name of ${two}` }).click();
  await page.getByRole("heading", { name: `Name of ${two}` }).waitFor();
  assert.ok(page.url().endsWith(path), page.url());
  await write(page, "Hello, two");
  await row(page, `Name of ${two}`).getByText("Hello, two").waitFor();
  await send(two, "p_auth0%7C7_user%5F2N", "Hello, one");
  await article(page, "Hello, one").waitFor();
  await eventually(async () => assert.doesNotMatch((await rows(page))[0], /unread/));
  await page.reload();
  await article(page, "Hello, one").waitFor();
  await send(three, one, "Hello from three");
  await row(page, "Name of").filter({ hasText: three }).click();
  await article(page, "Hello from three").waitFor();
  await write(page, "Hello, three");
  await eventually(async () => assert.match(await article(page, "Hello, three").getAttribute("data-status"), /sent|delivered|read/));
  await page.context().close();
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
