// The playground: signing in, examples, the log of events, documentation, colours.
import assert from "node:assert/strict";

import { PATIENCE, PHONE, check, complained, eventually, fitsItsWidth, isAccessible, open, run, send } from "./harness.mjs";

let page;

const execute = (on = page) => on.locator(".graphiql-execute-button").click();
const log = (on = page) => on.getByRole("region", { name: "Events" });
const tab = (operation, on = page) => on.locator(`.graphiql-tab [title="${operation}"]`);
const numbers = async () => (await log().locator("li .number").allInnerTexts()).map(Number);

/** The text of an editor: it draws spaces as no-break spaces, and only the visible lines. */
const text = async (locator) => (await locator.innerText()).replaceAll("\u00a0", " ");
const shown = (on = page) => text(on.locator(".result-window"));
const answers = (what) => eventually(async () => assert.match(await shown(), what));

/** Waits until the tab of an operation is displayed. */
const isShown = (operation, on = page) => on.locator(`.graphiql-tab-active [title="${operation}"]`).waitFor();

/** Opens an example of an area. */
async function openExample(area, title, on = page) {
  const heading = on.getByRole("button", { name: new RegExp(`^${area} \\d+$`) });
  if ((await heading.getAttribute("aria-expanded")) === "false") await heading.click();
  await on.getByRole("button", { name: new RegExp(`^${title} (query|mutation|subscription)$`) }).click();
}

check("the first query runs with one click, as the first person", async () => {
  page = await open("/graphql", { name: "playground" });
  // A click does nothing while GraphiQL is still fetching its editor.
  await eventually(async () => {
    await execute();
    await eventually(async () => assert.match(await shown(), /"displayName": "Alice Archer"/), 3_000);
  }, 2 * PATIENCE);
  await answers(/"totalUnread": \d+/);
  assert.equal(await page.locator(".graphiql-tab").count(), 1);
});

check("one click signs in as another person and shows the user and the validity", async () => {
  await page.getByRole("button", { name: "Sign in as Bob Baker" }).click();
  await page.getByRole("status").filter({ hasText: /Bob.*\b(5\d|60) min/ }).waitFor();
  await page.getByRole("button", { name: "Sign in as Alice Archer" }).click();
  await page.getByRole("status").filter({ hasText: /Alice.*\b(5\d|60) min/ }).waitFor();
});

check("examples of all areas open in tabs with variables that fit the demo", async () => {
  // Each finds its values in another way: by looking, creating, sending bytes, joining, acting, and from the clock.
  for (const [area, title, operation, expected] of [
    ["Messages", "Edit a message", "EditMessage", /"editCount": 1/],
    ["Channels", "Read a channel", "ChannelMessages", /"name": "lake"/],
    ["Sessions", "Mute for an hour", "MuteSession", /"muteStatus": true/],
    ["Files and uploads", "Complete an upload", "CompleteUpload", /"state": "READY"/],
    ["Voice", "Unmute yourself", "UpdateVoice", /"video": true/],
    ["Voice", "Leave a voice channel", "LeaveVoice", /"leaveVoice": true/],
    ["Moderation", "Ban a member", "BanUser", /"displayName": "Vera Visitor"/],
    ["Export and erasure", "Download an export", "Export", /"state": "\w+"/],
    ["People and tokens", "Act for a user", "ActAs", /"displayName": "Bob Baker"/],
  ]) {
    await openExample(area, title);
    await isShown(operation);
    await execute();
    await answers(expected);
    assert.doesNotMatch(await shown(), /"errors"/);
    assert.doesNotMatch(await text(page.getByRole("region", { name: /^(Variables|Headers)$/ })), /\{\w+\}/);
  }
  assert.equal(await page.locator(".graphiql-tab").count(), 10);
});

check("an example that is opened again gets new variables in its tab", async () => {
  const variables = () => text(page.getByRole("region", { name: "Variables" }));
  await openExample("Messages", "Edit a message");
  await isShown("EditMessage");
  await eventually(async () => assert.match(await variables(), /m_\d+/));
  const [before] = /m_\d+/.exec(await variables());
  await openExample("Messages", "Edit a message");
  await eventually(async () => assert.notEqual(/m_\d+/.exec(await variables())?.[0], before));
  assert.equal(await page.locator(".graphiql-tab").count(), 10);
});

check("examples are found by words of their titles and fields", async () => {
  const field = page.getByRole("searchbox", { name: "Find an example" });
  await field.fill("webhook secret");
  await page.getByRole("button", { name: /^Change a webhook's secret mutation/ }).waitFor();
  await field.fill("joinVoice");
  assert.equal(await page.getByRole("button", { name: /^Join a voice channel mutation/ }).count(), 1);
  assert.equal(await page.getByRole("button", { name: /^Edit a message mutation/ }).count(), 0);
  await field.fill("nothing like this");
  await page.getByText("No example has these words.").waitFor();
  await field.fill("");
});

check("the keyboard opens areas and examples", async () => {
  const heading = page.getByRole("button", { name: /^Typing \d+$/ });
  await heading.focus();
  await page.keyboard.press("Enter");
  assert.equal(await heading.getAttribute("aria-expanded"), "true");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await isShown("StartTyping");
  assert.equal(await page.getByRole("button", { name: /^Say that you are typing mutation/ }).getAttribute("aria-current"), "true");
});

check("an example for another person offers to sign in as her", async () => {
  const bob = await open("/graphql?as=bob", { name: "bob" });
  await openExample("Groups", "Rename a group", bob);
  await bob.getByRole("button", { name: "Sign in as Alice", exact: true }).click();
  await bob.getByRole("status").filter({ hasText: "Signed in as Alice Archer" }).waitFor();
  assert.equal(await bob.getByText("This example is made for").count(), 0);
  await bob.close();
});

check("without the demo's people, examples say what to replace, and create nothing", async () => {
  const prepare = (context) => context.route("**/dev/people", (route) => route.fulfill({ status: 404 }));
  const other = await open("/graphql", { name: "no-demo", prepare });
  await other.getByRole("textbox", { name: "Token" }).waitFor();
  let asked = 0;
  other.on("request", (request) => (asked += request.method() === "POST" && /sendMessage/.test(request.postData()) ? 1 : 0));
  await openExample("Messages", "Edit a message", other);
  await other.getByRole("status").filter({ hasText: "This server has no demo data: replace what is in {braces}." }).waitFor();
  await eventually(async () => assert.match(await text(other.getByRole("region", { name: "Variables" })), /"messageId": "\{ownMessage\}"/));
  assert.equal(asked, 0);
  await other.getByRole("button", { name: "Close this notice" }).click();
  assert.equal(await other.getByText("This server has no demo data").count(), 0);
  await other.close();
});

check("a subscription shows all its events, the newest first", async () => {
  await openExample("Live subscriptions", "One conversation");
  await isShown("ConversationEvents");
  await execute();
  await log().getByRole("button", { name: /CaughtUp/ }).waitFor();
  for (const word of ["first", "second", "third"]) await send("bob", "alice", `The ${word} event`);
  await log().getByText("The third event").waitFor();
  for (const word of ["first", "second"]) assert.equal(await log().getByRole("button", { name: new RegExp(`MessageCreated.*The ${word} event`) }).count(), 1);
  const found = await numbers();
  assert.ok(found.length >= 4);
  assert.deepEqual(found, found.map((_, at) => found.length - at));
  assert.match(await log().locator("li time").first().innerText(), /^\d\d:\d\d:\d\d\.\d{3}$/);
  assert.equal(await page.locator(".result-window").isVisible(), false);
});

check("events open and close with the keyboard, and the newest is announced", async () => {
  const oldest = log().getByRole("button", { name: /^1 .*CaughtUp/ });
  await oldest.focus();
  await page.keyboard.press("Enter");
  await log().locator("li", { hasText: "CaughtUp" }).locator("pre").waitFor();
  await page.keyboard.press("Enter");
  assert.equal(await oldest.getAttribute("aria-expanded"), "false");
  assert.match(await log().getByRole("status").innerText(), /^Event \d+: \w+$/);
});

check("a paused log keeps what arrives, and continues with it", async () => {
  await log().getByRole("button", { name: "Pause" }).click();
  const before = await numbers();
  await send("bob", "alice", "While it was paused");
  await log().getByRole("heading", { name: /^Paused, \d+ events? waiting$/ }).waitFor();
  assert.deepEqual(await numbers(), before);
  await log().getByRole("button", { name: "Continue" }).click();
  await log().getByText("While it was paused").first().waitFor();
  assert.deepEqual((await numbers()).slice(-before.length), before);
});

check("a cleared log is empty, and counts on", async () => {
  const [last] = await numbers();
  await log().getByRole("button", { name: "Clear" }).click();
  await log().getByText("New events appear here.").waitFor();
  await send("bob", "alice", "After it was cleared");
  await log().getByText("After it was cleared").first().waitFor();
  assert.ok((await numbers()).every((number) => number > last));
});

check("a subscription ends when its tab is left, and its events stay there", async () => {
  await openExample("Live subscriptions", "Presence changes");
  await isShown("PresenceEvents");
  await execute();
  await log().getByRole("button", { name: /presenceEvents/ }).first().waitFor();
  await tab("ConversationEvents").click();
  await log().getByRole("heading", { name: /^Ended after/ }).waitFor();
  await log().getByText("After it was cleared").first().waitFor();
});

check("a log keeps the newest 200 events", async () => {
  await execute();
  await log().getByRole("button", { name: /CaughtUp/ }).waitFor();
  for (let sent = 0; sent < 210; sent += 10) {
    await Promise.all(Array.from({ length: 10 }, (_, more) => send("bob", "alice", `Many events, ${sent + more}`)));
  }
  await eventually(async () => assert.ok((await numbers())[0] > 210));
  assert.equal((await numbers()).length, 200);
  await log().getByText("Older events are no longer kept.").waitFor();
  await execute();
});

check("a query in the same tab takes the place of the log", async () => {
  await tab("Sessions").click();
  await execute();
  await answers(/"totalUnread": \d+/);
  assert.equal(await log().count(), 0);
});

check("executed operations are in the history", async () => {
  await page.getByRole("button", { name: /History/ }).first().click();
  // GraphiQL does not keep what is executed before its editor is loaded.
  for (const name of ["EditMessage", "BanUser", "LeaveVoice"]) await page.getByRole("listitem").filter({ hasText: name }).first().waitFor();
  await page.getByRole("button", { name: /History/ }).first().click();
});

check("the documentation lists types and fields by name, and permissions in the order of their bits", async () => {
  await page.getByRole("button", { name: "Show Documentation Explorer" }).click();
  const inOrder = async (listed) => {
    const names = (await listed.allInnerTexts()).map((name) => name.trim());
    assert.ok(names.length > 20);
    assert.deepEqual(names, [...names].sort());
    return names;
  };
  const all = page.locator(".graphiql-doc-explorer-section-content").last();
  assert.ok((await inOrder(all.locator(".graphiql-doc-explorer-type-name"))).includes("Session"));
  await all.getByText("Permission", { exact: true }).click();
  await page.getByText("VIEW_CHANNEL", { exact: true }).waitFor();
  assert.equal((await page.locator(".graphiql-doc-explorer-enum-value").first().innerText()).trim(), "ADMINISTRATOR");
  await page.getByRole("link", { name: /Go back to/ }).click();
  await page.getByText("Mutation", { exact: true }).first().click();
  await page.getByText("sendMessage").first().waitFor();
  await inOrder(page.locator(".graphiql-doc-explorer-field-name"));
  await page.getByRole("button", { name: "Hide Documentation Explorer" }).click();
});

check("a refused token is reported after one attempt", async () => {
  const stranger = await open("/graphql#token=nonsense", { name: "stranger" });
  let opened = 0;
  stranger.on("websocket", () => (opened += 1));
  // The documentation is refused first.
  await eventually(async () => assert.match(await shown(stranger), /UNAUTHENTICATED/));
  await openExample("Live subscriptions", "Messages, receipts and typing", stranger);
  await isShown("MessageEvents", stranger);
  await execute(stranger);
  await log(stranger).getByText("The token was refused").first().waitFor();
  await log(stranger).getByRole("heading", { name: "Ended after 1 event" }).waitFor();
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(opened, 1);
  await stranger.close();
});

check("it follows the system's dark mode until the switch is used", async () => {
  await page.emulateMedia({ colorScheme: "dark" });
  const lightness = async () => (await page.evaluate(() => getComputedStyle(document.querySelector("main .graphiql-container")).backgroundColor)).match(/[\d.]+/g).slice(0, 3).map(Number);
  await page.getByRole("button", { name: "Switch to light" }).waitFor();
  await eventually(async () => assert.ok(Math.max(...(await lightness())) < 120, String(await lightness())));
  await page.getByRole("button", { name: "Switch to light" }).click();
  await eventually(async () => assert.ok(Math.max(...(await lightness())) > 120, String(await lightness())));
});

// GraphiQL's tabs contain the buttons that close them.
const GRAPHIQL = { except: ["nested-interactive"] };

check("axe finds nothing serious in light and dark", async () => {
  await tab("ConversationEvents").click();
  await log().waitFor();
  for (const other of ["dark", "light"]) {
    await page.getByRole("button", { name: "Examples", exact: true }).click();
    await page.getByRole("region", { name: "Examples" }).waitFor();
    await isAccessible(page, GRAPHIQL);
    await page.getByRole("button", { name: "Show Documentation Explorer" }).click();
    await page.getByText("Mutation", { exact: true }).first().waitFor();
    await isAccessible(page, GRAPHIQL);
    await page.getByRole("button", { name: `Switch to ${other}` }).click();
  }
});

check("the page has the colours of the demo", async () => {
  const colours = () =>
    page.evaluate(() => {
      const probe = document.body.appendChild(document.createElement("i"));
      const wanted = ["--accent", "--panel"].map((name) => ((probe.style.color = `var(${name})`), getComputedStyle(probe).color));
      probe.remove();
      const used = [".graphiql-execute-button", "main .graphiql-container"].map((part) => getComputedStyle(document.querySelector(part)).backgroundColor);
      return [wanted, used].map((list) => list.map((colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number)));
    });
  for (const other of ["dark", "light"]) {
    await eventually(async () => {
      const [wanted, used] = await colours();
      wanted.flat().forEach((part, at) => assert.ok(Math.abs(part - used.flat()[at]) <= 1, `${wanted} ${used}`));
    });
    await page.getByRole("button", { name: `Switch to ${other}` }).click();
  }
});

check("on a phone the list takes the place of the tabs, and everything fits", async () => {
  const phone = await open("/graphql", { name: "phone", viewport: PHONE, hasTouch: true });
  await tab("Sessions", phone).waitFor();
  assert.equal(await phone.getByRole("region", { name: "Examples" }).count(), 0);
  await phone.getByRole("button", { name: "Examples", exact: true }).click();
  await openExample("Live subscriptions", "One conversation", phone);
  await isShown("ConversationEvents", phone);
  await eventually(async () => {
    await execute(phone);
    await log(phone).getByRole("button", { name: /CaughtUp/ }).waitFor({ timeout: 3_000 });
  });
  await fitsItsWidth(phone);
  await isAccessible(phone, GRAPHIQL);
  const box = await log(phone).boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= PHONE.width && box.height > 150, JSON.stringify(box));
  await phone.close();
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
