// Long lists of the demo: 1,500 messages and 80 conversations, of which only a few rows are in the document. Long presses, and the
// buttons next to messages.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, isAccessible, PHONE, run, send } from "./harness.mjs";
import { article, box, list, log, openSession, row, write } from "./pages.mjs";

const WITH_ERIN = "p_dave_erin";
const MANY = 1500;
const AT_ONCE = 30;
const GROUPS = 80;
/** More rows than this fit on no screen of these tests, with those kept ready above and below. */
const MOST_ROWS = 60;

let dave, phone;

const toNewest = (page) => page.getByRole("button", { name: /^To the newest message/ });
const line = (page) => log(page).getByText("New messages", { exact: true });
const bySeq = (page, seq) => log(page).locator(`article[data-seq="${seq}"]`);
const focusedSeq = (page) => page.evaluate(() => Number(document.activeElement?.closest("article")?.dataset.seq ?? 0));
const rowCount = (page) => log(page).evaluate((log) => log.querySelectorAll("article").length);

async function isInView(page, place) {
  await eventually(async () => {
    const [list, own] = [await log(page).boundingBox(), await place.boundingBox({ timeout: 1000 })];
    assert.ok(own && own.y >= list.y - 1 && own.y + own.height <= list.y + list.height + 1, JSON.stringify([list, own]));
  });
}

/** The message in the middle of the screen, and where it is. */
const middle = (page) =>
  log(page).evaluate((log) => {
    const { top, height } = log.getBoundingClientRect();
    const found = [...log.querySelectorAll("article[data-seq]")].find((each) => each.getBoundingClientRect().bottom >= top + height / 2);
    return { seq: Number(found.dataset.seq), top: found.getBoundingClientRect().top };
  });

const topOf = (page, seq) => bySeq(page, seq).evaluate((element) => element.getBoundingClientRect().top);

/** Scrolls by some pixels, and returns how far the message that was in the middle has moved once nothing changes any more. */
const scrollBy = (page, pixels) =>
  log(page).evaluate(async (log, pixels) => {
    log.dispatchEvent(new WheelEvent("wheel", { deltaY: pixels })); // As a user scrolls: the list does not go back to its end.
    const { top, height } = log.getBoundingClientRect();
    const found = [...log.querySelectorAll("article[data-seq]")].find((each) => each.getBoundingClientRect().bottom >= top + height / 2);
    const before = found.getBoundingClientRect().top;
    log.scrollBy({ top: pixels, behavior: "instant" });
    for (let frames = 0; frames < 4; frames += 1) await new Promise((resolve) => requestAnimationFrame(resolve));
    const now = log.querySelector(`article[data-seq="${found.dataset.seq}"]`);
    return { seq: Number(found.dataset.seq), moved: now.getBoundingClientRect().top - before, rows: log.querySelectorAll("article").length };
  }, pixels);

check("a conversation with many unread messages opens at the first one, with few rows in the document", async () => {
  await send("dave", "erin", "Before all others");
  const lines = Array.from({ length: MANY }, (_, index) => {
    const text = `Line ${index}.${index % 7 ? "" : " And more of it, because heights differ.".repeat(1 + (index % 5) * 2)}`;
    return `l${index}: sendMessage(input: {conversationId: "${WITH_ERIN}", content: "${text}"}) { message { seq } }`;
  });
  for (let from = 0; from < MANY; from += AT_ONCE) await ask("erin", `mutation { ${lines.slice(from, from + AT_ONCE).join(" ")} }`);
  dave = await demo("dave");
  await openSession(dave, "Erin Archer");
  await line(dave).waitFor();
  await isInView(dave, line(dave));
  await isInView(dave, article(dave, "Line 0."));
  assert.ok((await rowCount(dave)) < MOST_ROWS);
  assert.match(await toNewest(dave).getAttribute("aria-label"), /, 1\d{3} unread messages$/);
});

check("the button leads to the newest message, and everything is read then", async () => {
  await toNewest(dave).click();
  await isInView(dave, article(dave, `Line ${MANY - 1}.`));
  await toNewest(dave).waitFor({ state: "detached" });
  await eventually(async () => assert.equal((await ask("dave", `{ session(conversationId: "${WITH_ERIN}") { unreadCount } }`)).session.unreadCount, 0));
  assert.equal(await bySeq(dave, MANY + 1).getAttribute("aria-posinset"), String(MANY + 1));
  assert.equal(await bySeq(dave, MANY + 1).getAttribute("aria-setsize"), String(MANY + 1));
});

check("scrolling through hundreds of messages moves them exactly as far as it should, while older ones are loaded", async () => {
  const first = (await middle(dave)).seq;
  let last = first;
  for (let turn = 0; turn < 150 && first - last < 450; turn += 1) {
    const { seq, moved, rows } = await scrollBy(dave, -230);
    const after = await middle(dave);
    // At the end of what is loaded the page waits for more.
    if (moved > 2) assert.ok(Math.abs(moved - 230) <= 2 || after.seq <= seq, `message ${seq} moved by ${moved}`);
    assert.ok(moved <= 232 && moved >= -2, `message ${seq} moved by ${moved}`);
    assert.ok(rows < MOST_ROWS, `${rows} rows`);
    last = after.seq;
  }
  assert.ok(first - last >= 450, `from ${first} to ${last}`);
});

check("distant messages are dropped, and loaded again when the user scrolls back", async () => {
  const first = (await middle(dave)).seq;
  await eventually(async () => {
    const { moved, rows } = await scrollBy(dave, 380);
    assert.ok(moved >= -382 && moved <= 2, `moved by ${moved}`);
    assert.ok(rows < MOST_ROWS);
    assert.equal(await toNewest(dave).count(), 0);
  });
  await scrollBy(dave, 380);
  assert.ok((await middle(dave)).seq - first > 300);
  await isInView(dave, bySeq(dave, MANY + 1));
});

check("a message that arrives while older ones are read is counted, and moves nothing", async () => {
  for (let turn = 0; turn < 12; turn += 1) await scrollBy(dave, -300);
  const before = await middle(dave);
  await send("erin", WITH_ERIN, "Are you there?");
  await send("erin", WITH_ERIN, "Hello?");
  await eventually(async () => assert.match(await toNewest(dave).getAttribute("aria-label"), /, 2 unread messages$/));
  assert.ok(Math.abs((await topOf(dave, before.seq)) - before.top) <= 1);
});

check("a message above that becomes longer moves nothing that is displayed", async () => {
  const before = await middle(dave);
  // It is in the document, but above what is displayed.
  const hidden = await log(dave).evaluate((log) => Number([...log.querySelectorAll("article")].findLast((each) => each.getBoundingClientRect().bottom < log.getBoundingClientRect().top - 5).dataset.seq));
  const { messages } = await ask("erin", `{ messages(conversationId: "${WITH_ERIN}", first: 40, aroundSeq: ${hidden}) { edges { node { id seq } } } }`);
  const above = messages.edges.find(({ node }) => node.seq === hidden).node;
  await ask("erin", "mutation($id: ID!, $content: String!) { editMessage(messageId: $id, content: $content) { id } }", { id: above.id, content: "Longer now. ".repeat(80) });
  await eventually(async () => assert.match(await bySeq(dave, above.seq).textContent(), /Longer now/));
  await dave.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  assert.ok(Math.abs((await topOf(dave, before.seq)) - before.top) <= 1, `${before.top} ${await topOf(dave, before.seq)}`);
});

check("a quote leads to a message far away, which has the focus", async () => {
  const { messages } = await ask("erin", `{ messages(conversationId: "${WITH_ERIN}", first: 5) { edges { node { id seq } } } }`);
  await send("erin", WITH_ERIN, "As you said then", { replyToId: messages.edges[3].node.id });
  await toNewest(dave).click();
  await article(dave, "As you said then").locator("blockquote").getByRole("button").click();
  await bySeq(dave, 4).and(dave.locator(":focus")).waitFor();
  await isInView(dave, bySeq(dave, 4));
  assert.ok((await rowCount(dave)) < MOST_ROWS);
});

check("the focus stays on a message that is scrolled away, and the arrow keys continue from it", async () => {
  for (let turn = 0; turn < 10; turn += 1) await scrollBy(dave, 400);
  assert.equal(await focusedSeq(dave), 4);
  await dave.keyboard.press("ArrowDown");
  await eventually(async () => assert.equal(await focusedSeq(dave), 5));
  await isInView(dave, bySeq(dave, 5));
  await dave.keyboard.press("ArrowUp");
  await eventually(async () => assert.equal(await focusedSeq(dave), 4));
});

check("the newest message stays in view while the composer grows and the window gets lower", async () => {
  await toNewest(dave).click();
  const newest = article(dave, "As you said then");
  await isInView(dave, newest);
  await box(dave).fill("one\ntwo\nthree\nfour\nfive");
  await isInView(dave, newest);
  const usual = dave.viewportSize();
  await dave.setViewportSize({ ...usual, height: 480 });
  await isInView(dave, newest);
  await dave.setViewportSize(usual);
  await box(dave).fill("");
  await write(dave, "Now I am");
  await isInView(dave, article(dave, "Now I am"));
});

check("the buttons next to a message appear under the pointer, and the keyboard gets to them", async () => {
  const message = article(dave, "As you said then");
  const buttons = message.locator(".quick");
  const opacity = () => buttons.evaluate((element) => getComputedStyle(element).opacity);
  await box(dave).hover();
  assert.equal(await opacity(), "0");
  await message.hover();
  assert.equal(await opacity(), "1");
  await buttons.getByRole("button", { name: "React" }).click();
  await dave.getByRole("dialog", { name: "Choose an emoji" }).waitFor();
  await dave.keyboard.press("Escape");
  await message.hover();
  await buttons.getByRole("button", { name: "Reply", exact: true }).click();
  await dave.getByText("Reply to Erin Archer").waitFor();
  await dave.keyboard.press("Escape");
  await log(dave).focus();
  await eventually(async () => {
    await dave.keyboard.press("Tab");
    assert.equal(await dave.evaluate(() => document.activeElement.ariaLabel), "React");
  });
  assert.equal(await dave.evaluate(() => getComputedStyle(document.activeElement.closest(".quick")).opacity), "1");
});

check("of many conversations only a few rows are in the document, and the keyboard gets to all", async () => {
  const groups = Array.from({ length: GROUPS }, (_, index) => `g${index}: createGroup(input: {name: "Group ${index}", memberIds: ["erin", "carol"]}) { id }`);
  for (let from = 0; from < GROUPS; from += 20) await ask("dave", `mutation { ${groups.slice(from, from + 20).join(" ")} }`);
  await dave.reload();
  await row(dave, `Group ${GROUPS - 1}`).waitFor();
  const rowsThere = () => list(dave).getByRole("link").count();
  assert.ok((await rowsThere()) < 45);
  await row(dave, `Group ${GROUPS - 1}`).focus();
  await eventually(async () => {
    await dave.keyboard.press("End");
    assert.match(await dave.evaluate(() => document.activeElement.closest("li").ariaSetSize), /^\d+$/);
    assert.equal(await dave.evaluate(() => document.activeElement.closest("li").ariaPosInSet), await dave.evaluate(() => document.activeElement.closest("li").ariaSetSize));
  });
  assert.ok((await rowsThere()) < 45);
  await dave.keyboard.press("Home");
  await eventually(async () => assert.equal(await dave.evaluate(() => document.activeElement.closest("li").ariaPosInSet), "1"));
});

check("axe finds nothing serious in long lists", async () => {
  await isAccessible(dave);
});

async function touch(page, place, { hold, move = 0 }) {
  const { x, y, width, height } = await place.boundingBox();
  const at = (down) => [{ x: Math.round(x + width / 2), y: Math.round(y + height / 2 + down) }];
  const session = await page.context().newCDPSession(page);
  await session.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: at(0) });
  for (let step = 1; move && step <= 5; step += 1) await session.send("Input.dispatchTouchEvent", { type: "touchMove", touchPoints: at((move * step) / 5) });
  await page.waitForTimeout(hold);
  await session.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
  await session.detach();
}

check("on a phone, a long press on a message opens its menu; a tap and scrolling do not", async () => {
  phone = await demo("dave", { device: "phone", path: `#/c/${WITH_ERIN}`, viewport: PHONE, hasTouch: true, isMobile: true });
  const text = article(phone, "As you said then").locator(".text");
  await isInView(phone, text);
  const menu = phone.getByRole("menu");
  await text.tap();
  await touch(phone, text, { hold: 700, move: -60 }); // At the end of the list nothing moves.
  assert.equal(await menu.count(), 0);
  assert.equal(await article(phone, "As you said then").locator(".quick").evaluate((element) => getComputedStyle(element).opacity), "0");
  await eventually(async () => {
    if (!(await menu.count())) await touch(phone, text, { hold: 700 });
    assert.equal(await menu.count(), 1);
  });
  assert.equal(await phone.evaluate(() => String(getSelection())), "");
  await phone.getByRole("menuitem", { name: "Reply", exact: true }).tap();
  await phone.getByText("Reply to Erin Archer").waitFor();
});

check("on a phone, a long press on a conversation opens its menu and not the conversation", async () => {
  await phone.getByRole("button", { name: "Back", exact: true }).tap();
  const session = row(phone, `Group ${GROUPS - 1}`);
  await session.waitFor();
  const menu = phone.getByRole("menu");
  await touch(phone, session, { hold: 700, move: 60 });
  assert.equal(await menu.count(), 0);
  await eventually(async () => {
    if (!(await menu.count())) await touch(phone, session, { hold: 700 });
    assert.equal(await menu.count(), 1);
  });
  await menu.getByRole("menuitem", { name: "Pin", exact: true }).waitFor();
  assert.equal(await list(phone).isVisible(), true);
  await isAccessible(phone);
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
