// Pinned messages in the demo: in private conversations, groups and channels, for everybody at once.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, fitsItsWidth, isAccessible, PHONE, run, send } from "./harness.mjs";
import { act, article, bubble, channel, isActive, log, openSession, openWorkspace, undo } from "./pages.mjs";

let alice, bob, dave;

const button = (page, count) => page.getByRole("button", { name: `${count} pinned message${count === 1 ? "" : "s"}` });
const dialog = (page) => page.getByRole("dialog", { name: "Pinned messages" });
const texts = (page) => dialog(page).locator(".pinned-text").allTextContents();
const mark = (page, text) => bubble(page, text).getByRole("img", { name: "Pinned" });
const menuOf = async (page, text) => {
  await bubble(page, text).hover();
  await bubble(page, text).getByRole("button", { name: "Actions for message" }).click();
  const items = await page.getByRole("menuitem").allTextContents();
  await page.keyboard.press("Escape");
  return items;
};

check("a message that one person pins is marked, counted and announced for the other at once", async () => {
  await send("bob", "dave", "The key is under the blue pot");
  await send("bob", "dave", "The code of the gate is 4711");
  [dave, bob] = [await demo("dave"), await demo("bob")];
  for (const [page, other] of [[dave, "Bob Baker"], [bob, "Dave Dyer"]]) {
    await isActive(page);
    await openSession(page, other);
  }
  assert.equal(await button(bob, 1).count(), 0);
  await act(dave, "The code of the gate", "Pin");
  for (const page of [dave, bob]) {
    await mark(page, "The code of the gate").waitFor();
    await button(page, 1).waitFor();
  }
  await log(bob).getByText("Dave Dyer pinned").waitFor();
  await log(dave).getByText("You pinned").waitFor();
  await isAccessible(bob);
});

check("the list has the latest pin first, with its author, and follows pins and edits of others while it is open", async () => {
  await button(bob, 1).click();
  assert.deepEqual(await texts(bob), ["The code of the gate is 4711"]);
  await act(dave, "The key is under the blue pot", "Pin");
  await eventually(async () => assert.deepEqual(await texts(bob), ["The key is under the blue pot", "The code of the gate is 4711"]));
  const { pinnedMessages } = await ask("bob", '{ pinnedMessages(conversationId: "p_bob_dave") { edges { node { id } } } }');
  await ask("bob", `mutation { editMessage(messageId: "${pinnedMessages.edges[1].node.id}", content: "The code of the gate is 4712") { id } }`);
  await eventually(async () => assert.deepEqual(await texts(bob), ["The key is under the blue pot", "The code of the gate is 4712"]));
  await dialog(bob).getByText("You", { exact: true }).first().waitFor();
  await isAccessible(bob, { within: "dialog" });
});

check("the keyboard unpins in the list, and undoes it without closing the list", async () => {
  const unpin = dialog(bob).getByRole("button", { name: "Unpin the message of Bob Baker" });
  await unpin.first().focus();
  await bob.keyboard.press("Enter");
  await eventually(async () => assert.deepEqual(await texts(bob), ["The code of the gate is 4712"]));
  await dialog(bob).getByRole("button", { name: "Undo" }).waitFor();
  await bob.keyboard.press("Control+z"); // Before the message with "Undo" goes away.
  await eventually(async () => assert.deepEqual(await texts(bob), ["The key is under the blue pot", "The code of the gate is 4712"]));
  await button(dave, 2).waitFor();
});

check("a row of the list leads to the message, however far back it is, and so does the announcement", async () => {
  const lines = Array.from({ length: 70 }, (_, index) => `l${index}: sendMessage(input: {toUserId: "dave", content: "Line ${index}."}) { message { seq } }`);
  for (let from = 0; from < lines.length; from += 30) await ask("bob", `mutation { ${lines.slice(from, from + 30).join(" ")} }`);
  await bob.reload();
  await isActive(bob);
  await article(bob, "Line 69.").waitFor();
  assert.equal(await article(bob, "The key is under the blue pot").count(), 0);
  await button(bob, 2).click();
  await dialog(bob).getByRole("button", { name: /The key is under the blue pot/ }).click();
  await dialog(bob).waitFor({ state: "detached" });
  await bubble(bob, "The key is under the blue pot").waitFor();
  await eventually(async () => assert.ok(await bob.evaluate(() => document.activeElement.textContent.includes("The key is under the blue pot"))));
  await log(bob).getByRole("button", { name: "The code of the gate is 4712" }).first().click();
  await eventually(async () => assert.ok(await bob.evaluate(() => document.activeElement.textContent.includes("The code of the gate is 4712"))));
});

check("a recalled message leaves the list", async () => {
  const { pinnedMessages } = await ask("bob", '{ pinnedMessages(conversationId: "p_bob_dave") { edges { node { id } } } }');
  await ask("bob", `mutation { recallMessage(messageId: "${pinnedMessages.edges[0].node.id}") { id } }`);
  for (const page of [dave, bob]) await button(page, 1).waitFor();
  await button(bob, 1).click();
  await eventually(async () => assert.equal((await texts(bob)).length, 1));
  await bob.keyboard.press("Escape");
});

check("in a group only the owner and admins pin; members read the list without buttons to unpin", async () => {
  await openSession(bob, "Weekend hike");
  assert.ok(!(await menuOf(bob, "Four alarms are set.")).includes("Pin"));
  await button(bob, 1).click();
  await dialog(bob).getByRole("button", { name: /Train at 8:12 from platform 3/ }).waitFor();
  assert.equal(await dialog(bob).getByRole("button", { name: /^Unpin/ }).count(), 0);
  await bob.keyboard.press("Escape");
  await dave.context().close();
  alice = await demo("alice");
  await isActive(alice);
  await openSession(alice, "Weekend hike");
  await act(alice, "Four alarms are set.", "Pin");
  await button(bob, 2).waitFor();
  await undo(alice);
  await button(bob, 1).waitFor();
});

check("in a channel only members with the permission pin, and pins arrive at once", async () => {
  for (const page of [alice, bob]) {
    await openWorkspace(page);
    await channel(page, "general").click();
    await button(page, 1).waitFor();
  }
  assert.ok(!(await menuOf(bob, "Mine. They have character.")).includes("Pin"));
  await act(alice, "Mine. They have character.", "Pin");
  await button(bob, 2).waitFor();
  await mark(bob, "Mine. They have character.").waitFor();
  await act(alice, "Mine. They have character.", "Unpin");
  await button(bob, 1).waitFor();
});

check("a pin that the server refuses is explained, and nothing is marked", async () => {
  await alice.route("**/graphql", async (route) => {
    if (!/pinMessage/.test(route.request().postData() ?? "")) return route.continue();
    return route.fulfill({ json: { data: null, errors: [{ message: "a conversation has at most 250 pinned messages; unpin one first", extensions: { code: "LIMIT_REACHED", retryable: false } }] } });
  });
  await act(alice, "Mine. They have character.", "Pin");
  await alice.getByRole("alert").getByText(/at most 250 pinned messages/).waitFor();
  assert.equal(await mark(alice, "Mine. They have character.").count(), 0);
  await alice.unroute("**/graphql");
});

check("on a phone in dark colours the list fits and leads to the message", async () => {
  const phone = await demo("alice", { device: "phone", viewport: PHONE, colorScheme: "dark", hasTouch: true });
  await isActive(phone);
  await openSession(phone, "Bob Baker");
  await button(phone, 2).click();
  await dialog(phone).getByRole("button", { name: /lighter/ }).waitFor();
  await fitsItsWidth(phone);
  await isAccessible(phone);
  await dialog(phone).getByRole("button", { name: /Platform 3/ }).click();
  await bubble(phone, "Platform 3.").waitFor();
  await fitsItsWidth(phone);
});

check("no browser reported an error", () => assert.deepEqual(complained(), []));

await run();
