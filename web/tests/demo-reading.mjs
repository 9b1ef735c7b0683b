// Reading in the demo: the line "New messages", what counts as read, the way to the newest message and to a quoted one.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, run, send } from "./harness.mjs";
import { article, log, openSession, write } from "./pages.mjs";

const WITH_ERIN = "p_carol_erin";
const MANY = 120;

let carol;

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

check("a conversation opens at the first unread message, and only messages on the screen become read", async () => {
  await send("carol", "erin", "Before");
  const lines = Array.from({ length: MANY }, (_, index) => `l${index}: sendMessage(input: {toUserId: "carol", content: "Line ${index}."}) { message { seq } }`);
  for (let from = 0; from < MANY; from += 30) await ask("erin", `mutation { ${lines.slice(from, from + 30).join(" ")} }`);
  carol = await demo("carol");
  await openSession(carol, "Erin Archer");
  await line(carol).waitFor();
  for (const place of [line(carol), article(carol, "Line 0."), article(carol, "Before")]) assert.ok(await inView(carol, place));
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
  await article(carol, "As you said").locator("blockquote").getByRole("button").click();
  await first.and(carol.locator(":focus")).waitFor();
  assert.match(await first.getAttribute("class"), /lit/);
  assert.ok(await inView(carol, first));
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
