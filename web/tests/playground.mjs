// The playground: signing in, the prepared operations and subscriptions, themes.
import assert from "node:assert/strict";

import { PATIENCE, check, complained, eventually, isAccessible, open, run, send } from "./harness.mjs";

let page;

const tab = (name) => page.getByRole("tab", { name, exact: true });
const execute = () => page.getByRole("button", { name: /^(Execute|Stop)/ }).click();

/** The text of the answer's editor: it draws spaces as no-break spaces, and only the visible lines. */
const shown = async (on = page) => (await on.locator(".result-window").innerText()).replaceAll("\u00a0", " ");
const answers = (what) => eventually(async () => assert.match(await shown(), what));

check("one click signs in and shows the user and the validity", async () => {
  page = await open("/graphql", { name: "playground" });
  await page.getByRole("button", { name: "Sign in as Alice Archer" }).click();
  await page.getByRole("status").filter({ hasText: /Alice.*\b(5\d|60) min/ }).waitFor();
});

check("the first tab runs unchanged", async () => {
  // A click does nothing while GraphiQL is still fetching its editor.
  await eventually(async () => {
    await execute();
    await eventually(async () => assert.match(await shown(), /"displayName": "Alice Archer"/), 3_000);
  }, 2 * PATIENCE);
  await answers(/"totalUnread": \d+/);
});

check("all other queries and mutations run unchanged", async () => {
  for (const [name, expected] of [
    ["History", /"messages": \{/],
    ["Send", /"replayed": false/],
    ["Organise", /"pinSession": \{/],
    ["Groups", /"myGroups": \{/],
    ["CatchUp", /"syncSessions": \{/],
    ["Presence", /"presences": \[/],
    ["SetPresence", /"setting": "DND"/],
  ]) {
    await tab(name).click();
    await execute();
    await answers(expected);
    assert.doesNotMatch(await shown(), /"errors"/);
  }
});

check("a subscription shows events", async () => {
  await tab("Live").click();
  await execute();
  await answers(/CaughtUp/);
  await send("bob", "alice", "Seen in the playground");
  await answers(/Seen in the playground/);
  await execute();
});

check("executed operations are in the history", async () => {
  await page.getByRole("button", { name: /History/ }).first().click();
  for (const name of ["Sessions", "Organise", "CatchUp"]) await page.getByRole("listitem").filter({ hasText: name }).first().waitFor();
  await page.getByRole("button", { name: /History/ }).first().click();
});

check("the documentation shows the contract's descriptions", async () => {
  await page.getByRole("button", { name: /Documentation/ }).click();
  await page.getByText("Mutation", { exact: true }).last().click();
  await page.getByText("sendMessage").first().waitFor();
  await page.getByRole("button", { name: /Documentation/ }).click();
});

check("a refused token is reported after one attempt", async () => {
  const stranger = await open("/graphql#token=nonsense", { name: "stranger" });
  let opened = 0;
  stranger.on("websocket", () => (opened += 1));
  // The documentation is refused first.
  await eventually(async () => assert.match(await shown(stranger), /UNAUTHENTICATED/));
  await stranger.getByRole("tab", { name: "Live" }).click();
  await stranger.getByRole("button", { name: /^Execute/ }).click();
  await eventually(async () => assert.match(await shown(stranger), /The token was refused/));
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

check("axe finds nothing serious in the bar", async () => {
  await isAccessible(page, { within: "header" });
  await page.getByRole("button", { name: "Switch to dark" }).click();
  await isAccessible(page, { within: "header" });
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
