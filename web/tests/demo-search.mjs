// The demo's search: people, conversations, channels and messages, opened at a result, and back.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, fitsItsWidth, isAccessible, PHONE, run, send } from "./harness.mjs";
import { article, box, isActive, log, openSession, write } from "./pages.mjs";

const WITH_BOB = "p_alice_bob";
const WITH_DAVE = "p_alice_dave";
const MANY = 120;

let alice, needle;

const dialog = (page) => page.getByRole("dialog", { name: "Search", exact: true });
const field = (page) => dialog(page).getByRole("combobox", { name: /^Search/ });
const group = (page, name) => dialog(page).getByRole("group", { name, exact: true });
const option = (page, text) => dialog(page).getByRole("option").filter({ hasText: text });
const chosen = (page) => dialog(page).getByRole("listbox", { name: "Results" }).getByRole("option", { selected: true });
const isClosed = (page) => eventually(async () => assert.equal(await dialog(page).count(), 0));
const backButton = (page) => page.getByRole("button", { name: "Back to the results" });

async function openSearch(page) {
  await page.keyboard.press("Control+k");
  await field(page).waitFor();
}

/** Types a search, and waits until its messages are displayed. */
async function search(page, text, number) {
  await field(page).fill(text);
  await eventually(async () => assert.equal(await group(page, "Messages").locator(".message").count(), number));
}

/** Resolves when the message has been highlighted. Call it before. */
const highlighted = (page, seq) =>
  page.evaluate((seq) => {
    window.highlighted = new Promise((resolve) => {
      const look = () => document.querySelector(`article.highlighted[data-seq="${seq}"]`) && resolve();
      new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributeFilter: ["class"] });
    });
  }, seq);

/** before: called before each look. A list that has just been opened goes to its end again when its rows turn out to be higher. */
const inView = (page, text, before = async () => {}) =>
  eventually(async () => {
    await before();
    const isIn = await article(page, text).evaluate((element) => {
      const [list, { top, bottom }] = [element.closest("[role=log]").getBoundingClientRect(), element.getBoundingClientRect()];
      return top >= list.top && bottom <= list.bottom;
    });
    assert.ok(isIn, `${text} is not on the screen`);
  });

/** Until it is in the index. */
const isFound = (user, query, number) =>
  eventually(async () => {
    const { searchMessages } = await ask(user, "query($query: String!) { searchMessages(query: $query, first: 100) { edges { node { id } } } }", { query });
    assert.equal(searchMessages.edges.length, number);
  });

check("Ctrl+K opens the search with the focus in its field, and Escape gives the focus back", async () => {
  needle = await send("dave", "alice", "😀😀 A needle, in the Haystack 🪡");
  const lines = Array.from({ length: MANY }, (_, index) => `l${index}: sendMessage(input: {toUserId: "alice", content: "Straw ${index}."}) { message { seq } }`);
  for (let from = 0; from < MANY; from += 30) await ask("dave", `mutation { ${lines.slice(from, from + 30).join(" ")} }`);
  alice = await demo("alice", { path: `#/c/${WITH_BOB}` });
  await isActive(alice);
  await box(alice).focus();
  await openSearch(alice);
  const isFocused = (locator) => eventually(async () => assert.ok(await locator.evaluate((each) => each === document.activeElement)));
  await isFocused(field(alice));
  for (let times = 0; times < 12; times += 1) {
    await alice.keyboard.press("Tab");
    assert.ok(await alice.evaluate(() => document.activeElement === document.body || !!document.activeElement.closest("dialog")));
  }
  await alice.keyboard.press("Escape");
  await isClosed(alice);
  await isFocused(box(alice));
});

check("before anything is typed, the search offers the conversations at the top of the list", async () => {
  await openSearch(alice);
  await group(alice, "Recent").getByRole("option", { name: "Bob Baker" }).waitFor();
});

check("people, groups and channels are found by beginnings of words, without case and accents", async () => {
  await field(alice).fill("BÁK");
  await group(alice, "People").getByRole("option", { name: "Bob Baker" }).waitFor();
  await field(alice).fill("hìk");
  await group(alice, "Conversations").getByRole("option", { name: "Weekend hike" }).waitFor();
  await field(alice).fill("#LAK");
  await group(alice, "Conversations").getByRole("option", { name: "lake" }).waitFor();
});

check("messages are found while they are typed, with their words highlighted, also after an emoji", async () => {
  await isFound("alice", "haystack", 1);
  await search(alice, "needle hayst", 1);
  const found = option(alice, "A needle, in the Haystack");
  assert.match((await found.locator("mark").allTextContents()).join("|"), /^needle\|Hayst(ack)?$/);
  await found.getByText("Dave Dyer").waitFor();
  assert.match(await found.locator("time").textContent(), /^\d\d:\d\d$/);
});

check("the arrow keys choose a result, and the next page is loaded with them", async () => {
  await isFound("alice", "straw", 100);
  await search(alice, "straw", 20);
  assert.match(await chosen(alice).textContent(), new RegExp(`Straw ${MANY - 1}\\.`));
  await field(alice).press("ArrowDown");
  await eventually(async () => assert.match(await chosen(alice).textContent(), new RegExp(`Straw ${MANY - 2}\\.`)));
  await field(alice).press("ArrowUp");
  await field(alice).press("ArrowUp");
  await eventually(async () => assert.match(await chosen(alice).textContent(), /Show more/));
  await field(alice).press("Enter");
  await eventually(async () => assert.equal(await group(alice, "Messages").locator(".message").count(), 40));
});

check("the dialog is accessible, in light and in dark", async () => {
  for (const colorScheme of ["light", "dark"]) {
    await alice.emulateMedia({ colorScheme });
    await isAccessible(alice, { within: "dialog.search" });
  }
  await alice.emulateMedia({ colorScheme: null });
});

check("a result opens in its conversation, in the middle of its neighbours, and is highlighted", async () => {
  await search(alice, "haystack", 1);
  await highlighted(alice, needle.seq);
  await field(alice).press("Enter");
  await alice.getByRole("heading", { name: "Dave Dyer" }).waitFor();
  await isClosed(alice);
  await alice.evaluate(() => window.highlighted);
  await inView(alice, "A needle");
  assert.ok(alice.url().endsWith(`#/c/${WITH_DAVE}/${needle.seq}`), alice.url());
  assert.equal(await article(alice, `Straw ${MANY - 1}.`).count(), 0);
});

check("the user can scroll on from there to the newest message", async () => {
  await eventually(async () => {
    await log(alice).evaluate((list) => list.scrollBy({ top: list.clientHeight, behavior: "instant" }));
    assert.equal(await alice.getByRole("button", { name: "To the newest message" }).count(), 0);
  });
  await inView(alice, `Straw ${MANY - 1}.`);
  await send("dave", "alice", "And the present");
  await inView(alice, "And the present");
});

check("back returns to the results, and closing them to the conversation from before", async () => {
  await backButton(alice).click();
  await field(alice).waitFor();
  assert.equal(await field(alice).inputValue(), "haystack");
  assert.match(await chosen(alice).textContent(), /A needle/);
  await alice.keyboard.press("Escape");
  await isClosed(alice);
  await alice.getByRole("heading", { name: "Bob Baker" }).waitFor();
  assert.equal(await backButton(alice).count(), 0);
});

check("back in the same conversation shows the messages from before", async () => {
  await openSession(alice, "Dave Dyer");
  await article(alice, "Straw 100.").waitFor();
  const scroll = () => article(alice, "Straw 100.").evaluate((element) => element.scrollIntoView({ block: "center" }));
  await inView(alice, "Straw 100.", scroll);
  await openSearch(alice);
  await search(alice, "haystack", 1);
  await highlighted(alice, needle.seq);
  await field(alice).press("Enter");
  await alice.evaluate(() => window.highlighted);
  await inView(alice, "A needle");
  await alice.goBack();
  await field(alice).waitFor();
  await inView(alice, "Straw 100.");
  await alice.goForward();
  await inView(alice, "A needle");
  await alice.goBack();
  await alice.keyboard.press("Escape");
  await isClosed(alice);
  await inView(alice, "Straw 100.");
});

check("filters narrow the search to a conversation, a sender and links", async () => {
  await send("alice", "bob", "My haystack");
  await send("bob", "alice", "Read https://example.com/haystack");
  await isFound("alice", "haystack", 3);
  await alice.getByRole("button", { name: "Search in this conversation" }).click();
  await search(alice, "haystack", 1);
  await dialog(alice).getByRole("button", { name: "In: Dave Dyer" }).click();
  await search(alice, "haystack", 3);
  await dialog(alice).getByRole("combobox", { name: "From" }).selectOption({ label: "From: you" });
  await search(alice, "haystack", 1);
  await option(alice, "My haystack").waitFor();
  await dialog(alice).getByRole("button", { name: "Clear" }).click();
  await dialog(alice).getByRole("button", { name: "Links" }).click();
  await search(alice, "haystack", 1);
  await option(alice, "Read https://").waitFor();
  await dialog(alice).getByRole("button", { name: "Clear" }).click();
});

check("the search shows that nothing was found, why it failed, and that not everything was searched", async () => {
  await field(alice).fill("xylophone zither");
  await dialog(alice).getByText("Nothing found").first().waitFor();
  await field(alice).fill("-haystack");
  await dialog(alice).getByRole("alert").filter({ hasText: "Messages were not searched" }).waitFor();
  await search(alice, "haystack", 3);
  assert.equal(await dialog(alice).getByText("Not everything was searched").count(), 0);

  const isSearch = (request) => !!request.postData()?.includes("query SearchMessages");
  await alice.route("**/graphql", async (route) => {
    if (!isSearch(route.request())) return route.fallback();
    const response = await route.fetch();
    const json = await response.json();
    json.data.searchMessages.complete = false;
    return route.fulfill({ response, json });
  });
  await search(alice, "needle", 1);
  await dialog(alice).getByText("Not everything was searched").waitFor();
  await alice.unroute("**/graphql");

  await alice.route("**/graphql", (route) => (isSearch(route.request()) ? route.abort() : route.fallback()));
  await field(alice).fill("hayst");
  await dialog(alice).getByRole("alert").waitFor();
  await alice.unroute("**/graphql");
  await dialog(alice).getByRole("button", { name: "Try again" }).click();
  await eventually(async () => assert.equal(await group(alice, "Messages").locator(".message").count(), 3));
});

check("a result in a channel opens the channel, which shows new messages", async () => {
  const { myWorkspaces } = await ask("bob", "{ myWorkspaces { edges { node { channels { edges { node { id name } } } } } } }");
  const { id } = myWorkspaces.edges[0].node.channels.edges.map(({ node }) => node).find(({ name }) => name === "general");
  const { seq } = await send("bob", id, "Lost: one compass, brass");
  await isFound("alice", "compass brass", 1);
  await search(alice, "compass brass", 1);
  await option(alice, "Lost: one").getByText("#general · Lakeside Hikers").waitFor();
  await highlighted(alice, seq);
  await option(alice, "Lost: one").click();
  await alice.getByRole("heading", { name: "general" }).waitFor();
  await alice.evaluate(() => window.highlighted);
  await inView(alice, "Lost: one");
  await send("bob", id, "Found it, in my pocket");
  await inView(alice, "Found it");
  await alice.goBack();
  await alice.keyboard.press("Escape");
  await isClosed(alice);
});

check("a channel opens although the user does not follow it, and is searched when it is open", async () => {
  const { myWorkspaces } = await ask("erin", "{ myWorkspaces { edges { node { channels { edges { node { id name viewerFollows } } } } } } }");
  const { id, viewerFollows } = myWorkspaces.edges[0].node.channels.edges.map(({ node }) => node).find(({ name }) => name === "lake");
  if (viewerFollows) await ask("erin", "mutation($id: ID!) { followChannel(channelId: $id, follow: false) { id } }", { id });
  await send("bob", id, "A pebble for the lighthouse");
  const erin = await demo("erin", { path: `#/c/${id}` });
  await erin.getByRole("heading", { name: "lake" }).waitFor();
  await article(erin, "A pebble").waitFor();
  await erin.getByRole("button", { name: "Search in this conversation" }).click();
  await eventually(async () => {
    await field(erin).fill("");
    await field(erin).fill("pebble lighthouse");
    await option(erin, "A pebble").waitFor({ timeout: 3000 });
  });
  await field(erin).press("Enter");
  await inView(erin, "A pebble");
  await erin.context().close();
});

check("a result in a thread opens the thread; one that the user does not follow opens too", async () => {
  const reply = async (user, threadOf, content) => {
    const query = "mutation($input: SendMessageInput!) { sendMessage(input: $input) { message { seq conversationId } } }";
    return (await ask(user, query, { input: { threadOf, content, idempotencyKey: content } })).sendMessage.message;
  };
  const { myGroups } = await ask("alice", "{ myGroups { edges { node { id name } } } }");
  const hike = myGroups.edges.find(({ node }) => node.name === "Weekend hike").node.id;
  const parent = await send("bob", hike, "Where do we meet on Sunday?");
  const { seq, conversationId } = await reply("alice", parent.id, "Under the gravel sign");
  await isFound("alice", "gravel sign", 1);
  await openSearch(alice);
  await search(alice, "gravel sign", 1);
  await option(alice, "Under the gravel").getByText("Thread: Where do we meet").waitFor();
  await highlighted(alice, seq);
  await field(alice).press("Enter");
  await alice.getByRole("heading", { name: "Weekend hike" }).waitFor();
  const thread = (page) => page.getByRole("complementary", { name: "Thread" });
  await thread(alice).getByText("Under the gravel sign").waitFor();
  await alice.evaluate(() => window.highlighted);
  await thread(alice).getByRole("textbox", { name: "Reply" }).waitFor();
  await alice.goBack();
  await alice.keyboard.press("Escape");
  await isClosed(alice);

  const carol = await demo("carol", { path: `#/c/${conversationId}` });
  await inView(carol, "Where do we meet on Sunday?");
  const said = (text) => thread(carol).getByRole("article").filter({ hasText: text });
  await said("Under the gravel").waitFor();
  await reply("bob", parent.id, "At nine");
  await said("At nine").waitFor();
  await thread(carol).getByRole("textbox", { name: "Reply" }).fill("I come too");
  await carol.keyboard.press("Enter");
  await said("I come too").and(carol.locator("[data-status='sent'], [data-status='delivered'], [data-status='read']")).waitFor();
  await isFound("bob", "come too", 1);
  await carol.context().close();
});

check("a person without a conversation is found, and can be written to", async () => {
  const dave = await demo("dave");
  await isActive(dave);
  await openSearch(dave);
  await field(dave).fill("erin");
  await group(dave, "People").getByRole("option", { name: /^Erin Archer/ }).click();
  await dave.getByRole("heading", { name: "Erin Archer" }).waitFor();
  await write(dave, "Found you");
  await article(dave, "Found you").waitFor();
  await dave.context().close();
});

check("on a phone the search fills the screen, and the back button returns to it", async () => {
  const phone = await demo("alice", { viewport: PHONE, hasTouch: true, isMobile: true, colorScheme: "dark" });
  await isActive(phone);
  await phone.getByRole("button", { name: /^Search/ }).tap();
  await search(phone, "haystack", 3);
  const { width, height } = await dialog(phone).boundingBox();
  assert.deepEqual([width, height], [PHONE.width, PHONE.height]);
  await fitsItsWidth(phone);
  await isAccessible(phone, { within: "dialog.search" });
  await option(phone, "A needle").tap();
  await isClosed(phone);
  await inView(phone, "A needle");
  await fitsItsWidth(phone);
  await backButton(phone).tap();
  await option(phone, "A needle").waitFor();
  await dialog(phone).getByRole("button", { name: "Close" }).tap();
  await isClosed(phone);
  await phone.getByRole("list", { name: "Sessions" }).waitFor();
  await phone.context().close();
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
