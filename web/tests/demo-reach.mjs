// Accessibility of the demo: keyboard, phone, dark mode, screen reader (axe), a long history.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, fitsItsWidth, isAccessible, open, PATIENCE, PHONE, run, send } from "./harness.mjs";
import { article, box, list, log, openSession, row, rows, write } from "./pages.mjs";

let alice, phone;

const focused = (page) => page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? "");

check("the keyboard alone is enough to find a conversation, write and return", async () => {
  alice = await demo("alice");
  await row(alice, "Bob Baker").waitFor();
  for (let tabs = 0; tabs < 15 && !/^Bob Baker/.test(await focused(alice)); tabs += 1) await alice.keyboard.press("Tab");
  assert.match(await focused(alice), /^Bob Baker/);
  await alice.keyboard.press("ArrowDown");
  const second = await focused(alice);
  assert.doesNotMatch(second, /^Bob Baker/);
  await alice.keyboard.press("Home");
  await alice.keyboard.press("Enter");
  await box(alice).waitFor();
  await eventually(async () => assert.equal(await focused(alice), "Message"));
  await alice.keyboard.type("By keyboard");
  await alice.keyboard.press("Enter");
  await article(alice, "By keyboard").waitFor();
  await alice.keyboard.press("Escape");
  await eventually(async () => assert.match(await focused(alice), /^Bob Baker/));
});

check("the address of a conversation opens it next to the whole list, even if the list loads late", async () => {
  const whole = (await rows(alice)).length;
  assert.ok(whole > 5);
  const prepare = (context) =>
    context.route("**/graphql", async (route) => {
      if (route.request().postData()?.includes("query Ready ")) await new Promise((resolve) => setTimeout(resolve, 500));
      await route.continue();
    });
  const page = await demo("alice", { path: "#/c/p_alice_bob", prepare });
  await page.getByRole("heading", { name: "Bob Baker" }).waitFor();
  await eventually(async () => assert.equal((await rows(page)).length, whole));
  await page.close();
});

check("menus work with the keyboard and return the focus", async () => {
  await alice.keyboard.press("Tab");
  assert.equal(await focused(alice), "Actions for Bob Baker");
  await alice.keyboard.press("Enter");
  await alice.getByRole("menu").waitFor();
  const first = await focused(alice);
  await alice.keyboard.press("ArrowDown");
  assert.notEqual(await focused(alice), first);
  await alice.keyboard.press("Escape");
  await eventually(async () => assert.equal(await alice.getByRole("menu").count(), 0));
  assert.equal(await focused(alice), "Actions for Bob Baker");
});

check("the focus is visible", async () => {
  await alice.keyboard.press("Shift+Tab");
  const outline = await alice.evaluate(() => {
    const style = getComputedStyle(document.activeElement);
    return `${style.outlineStyle} ${style.outlineWidth} ${style.boxShadow}`;
  });
  assert.doesNotMatch(outline, /^none .* none$/);
});

check("new messages are announced to screen readers", async () => {
  await send("dave", "alice", "Hear, hear");
  await alice.locator("[aria-live=polite]").filter({ hasText: "Dave Dyer: Hear, hear" }).waitFor({ state: "attached" });
});

check("scrolling up loads older messages and keeps the view in place", async () => {
  const lines = Array.from({ length: 90 }, (_, index) => `l${index}: sendMessage(input: {toUserId: "carol", content: "Line ${index}."}) { message { seq } }`);
  for (let from = 0; from < 90; from += 30) await ask("erin", `mutation { ${lines.slice(from, from + 30).join(" ")} }`);
  const carol = await demo("carol");
  await openSession(carol, "Erin Archer");
  await carol.getByText("New messages").waitFor();
  const toNewest = carol.getByRole("button", { name: "To the newest message" });
  await eventually(async () => {
    // Older messages that arrive meanwhile end the scrolling.
    if (await toNewest.isVisible()) await toNewest.click({ timeout: 1_000 });
    await toNewest.waitFor({ state: "hidden", timeout: 3_000 });
  });
  await article(carol, "Line 89.").waitFor();
  const top = () => log(carol).evaluate((box) => [...box.querySelectorAll("article")].find((each) => each.getBoundingClientRect().bottom > box.getBoundingClientRect().top + 5)?.dataset.seq);
  const scrollUp = () => log(carol).evaluate((box) => new Promise((resolve) => {
    box.scrollBy({ top: -500, behavior: "instant" });
    requestAnimationFrame(() => requestAnimationFrame(resolve));
  }));
  const oldest = () => log(carol).getByRole("article").first().getAttribute("data-seq");
  const seqs = () => log(carol).evaluate((box) => [...box.querySelectorAll("article")].map((each) => Number(each.dataset.seq)));
  const passed = new Set(await seqs());
  for (const end = Date.now() + PATIENCE; (await oldest()) !== "1" && Date.now() < end; ) {
    const before = Number(await top());
    await scrollUp();
    for (const each of await seqs()) passed.add(each);
    const after = Number(await top());
    assert.ok(after <= before && before - after < 25, `from ${before} to ${after}`);
  }
  const all = [...passed].sort((a, b) => a - b);
  assert.ok(all.length > 90);
  assert.deepEqual(all, all.map((_, index) => index + 1));
  await carol.close();
});

check("axe finds nothing serious in the list and a conversation", async () => {
  await openSession(alice, "Bob Baker");
  await article(alice, "By keyboard").waitFor();
  await isAccessible(alice);
});

check("axe finds nothing serious in the dialogs and menus", async () => {
  for (const name of ["New conversation", "New group"]) {
    await alice.getByRole("button", { name, exact: true }).click();
    await alice.getByRole("dialog", { name }).waitFor();
    await isAccessible(alice);
    await alice.keyboard.press("Escape");
  }
  await openSession(alice, "Weekend hike");
  await alice.getByRole("button", { name: "Group info" }).click();
  await alice.getByRole("dialog").getByRole("list", { name: "Members" }).waitFor();
  await isAccessible(alice);
  await alice.keyboard.press("Escape");
  await row(alice, "Weekend hike").hover();
  await list(alice).getByRole("button", { name: "Actions for Weekend hike" }).click();
  await isAccessible(alice);
  await alice.keyboard.press("Escape");
});

check("axe finds nothing serious in dark mode, and the choice is kept", async () => {
  await alice.getByRole("button", { name: "Switch to dark" }).click();
  await isAccessible(alice);
  await alice.reload();
  await row(alice, "Bob Baker").waitFor();
  assert.equal(await alice.evaluate(() => document.documentElement.dataset.theme), "dark");
});

check("a dark system gets dark mode, sign-in page included", async () => {
  const page = await open("/demo", { name: "dark", colorScheme: "dark" });
  await page.getByRole("button", { name: "Sign in as Alice Archer" }).waitFor();
  const [red] = (await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).match(/\d+/g).map(Number);
  assert.ok(red < 80, String(red));
  await isAccessible(page);
  await page.goto(page.url() + "?view=two");
  await page.frameLocator('iframe[title="Left device"]').getByRole("list", { name: "Sessions" }).waitFor();
  await isAccessible(page);
  await page.close();
});

check("a phone shows one column without overflow, and a way back", async () => {
  phone = await demo("bob", { viewport: PHONE, hasTouch: true, isMobile: true });
  await row(phone, "Alice Archer").waitFor();
  await fitsItsWidth(phone);
  await row(phone, "Alice Archer").tap();
  await box(phone).waitFor();
  assert.equal(await list(phone).isVisible(), false);
  await write(phone, `A long word: ${"very".repeat(60)}`);
  await article(phone, "A long word").waitFor();
  await fitsItsWidth(phone);
  await isAccessible(phone);
  await phone.getByRole("button", { name: "Back", exact: true }).tap();
  await list(phone).waitFor();
  await phone.getByRole("button", { name: "New group" }).tap();
  await fitsItsWidth(phone);
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
