// The demo's presence: who is online, what people set, and the devices of a person.
import assert from "node:assert/strict";

import { check, complained, demo, eventually, fitsItsWidth, isAccessible, PATIENCE, PHONE, run } from "./harness.mjs";
import { isActive, openSession, row } from "./pages.mjs";

const SHOWN_WITHIN = 2 * PATIENCE; // A departure is announced 15 s late.

let alice, bob;

const dot = (page, user) => page.locator(`.sessions .dot[data-user='${user}']`);
const shows = (page, user, status, patience) => eventually(async () => assert.equal(await dot(page, user).getAttribute("data-status"), status), patience);
const header = (page) => page.getByRole("main").getByRole("status").first();

async function set(page, presence) {
  await page.getByRole("button", { name: /^Your status/ }).click();
  await page.getByRole("dialog").getByText(presence, { exact: true }).click();
  await page.getByRole("dialog").getByRole("radio", { name: presence, checked: true }).waitFor({ state: "attached" });
  await page.keyboard.press("Escape");
}

check("a person who opens the demo is online for others, at their picture and in words", async () => {
  alice = await demo("alice");
  await isActive(alice);
  await shows(alice, "bob", "OFFLINE");
  bob = await demo("bob", { prepare: (context) => context.clock.install() });
  await isActive(bob);
  await shows(alice, "bob", "ONLINE");
  await openSession(alice, "Bob Baker");
  await header(alice).getByText("Online", { exact: true }).waitFor();
  await row(alice, "Bob Baker").getByText(", online").waitFor({ state: "attached" });
});

check("a person who does not use the page for five minutes is idle for others, until the next key", async () => {
  await bob.clock.fastForward("05:01");
  await shows(alice, "bob", "IDLE");
  await header(alice).getByText(/^Idle/).waitFor();
  await bob.clock.fastForward("00:10");
  await bob.keyboard.press("Shift");
  await shows(alice, "bob", "ONLINE");
});

check("do not disturb is shown until it is changed, and its end is displayed", async () => {
  await bob.getByRole("button", { name: /^Your status/ }).click();
  const dialog = bob.getByRole("dialog", { name: "Your status" });
  await dialog.getByLabel("How long").selectOption("For 1 hour");
  await dialog.getByText("Do not disturb", { exact: true }).click();
  await dialog.getByText(/^until .*\d\d:\d\d/).waitFor();
  await isAccessible(bob);
  await bob.keyboard.press("Escape");
  await shows(alice, "bob", "DND");
  await header(alice).getByText("Do not disturb").waitFor();
  await set(bob, "Online");
  await shows(alice, "bob", "ONLINE");
});

check("a custom status is next to the name, and disappears when it is cleared", async () => {
  await bob.getByRole("button", { name: /^Your status/ }).click();
  const dialog = bob.getByRole("dialog", { name: "Your status" });
  await dialog.getByRole("textbox", { name: "Emoji" }).fill("🥾");
  await dialog.getByRole("textbox", { name: "Status text" }).fill("On the ridge");
  await dialog.getByRole("button", { name: "Save" }).click();
  await row(alice, "Bob Baker").getByRole("img", { name: "On the ridge" }).waitFor();
  await header(alice).getByText("Online · On the ridge").waitFor();
  await alice.getByRole("button", { name: "Profile" }).click();
  await alice.getByRole("dialog", { name: "Bob Baker" }).getByText("On the ridge").waitFor();
  await isAccessible(alice);
  await alice.keyboard.press("Escape");
  await bob.getByRole("button", { name: /^Your status/ }).click();
  await dialog.getByRole("button", { name: "Clear status" }).click();
  await eventually(async () => assert.equal(await row(alice, "Bob Baker").getByRole("img", { name: "On the ridge" }).count(), 0));
});

check("an invisible person looks offline to others, and still receives messages", async () => {
  await set(bob, "Invisible");
  await shows(alice, "bob", "OFFLINE", SHOWN_WITHIN);
  await header(alice).getByText(/^Last active/).waitFor();
  await alice.getByRole("textbox", { name: "Message" }).fill("Are you hiding?");
  await alice.getByRole("button", { name: "Send" }).click();
  await row(bob, "Alice Archer").getByText("Are you hiding?").waitFor();
  await bob.getByRole("button", { name: "Your status: Invisible" }).waitFor();
  await shows(alice, "bob", "OFFLINE");
  await set(bob, "Online");
  await shows(alice, "bob", "ONLINE");
});

check("a reconnect does not flicker: others see no change, and what is displayed stays", async () => {
  const changes = [];
  await alice.exposeFunction("changed", (status) => changes.push(status));
  await dot(alice, "bob").evaluate((element) => new MutationObserver(() => window.changed(element.dataset.status ?? "")).observe(element, { attributes: true, childList: true }));
  for (const page of [bob, alice]) {
    await page.context().setOffline(true);
    await page.locator("[data-connection='Resuming']").waitFor();
    await page.context().setOffline(false);
    await isActive(page);
  }
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  assert.deepEqual(changes, []);
  assert.equal(await dot(alice, "bob").getAttribute("data-status"), "ONLINE");
});

check("people in a phone's list have their presence too, and nothing is too wide", async () => {
  const phone = await demo("carol", { viewport: PHONE, userAgent: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Mobile/15E148 Safari/604.1" });
  await isActive(phone);
  await shows(phone, "bob", "ONLINE");
  await eventually(async () => assert.equal(await dot(alice, "carol").getAttribute("data-mobile"), "true"));
  await phone.getByRole("button", { name: /^Your status/ }).click();
  await phone.getByRole("dialog").waitFor();
  await fitsItsWidth(phone);
  await phone.close();
});

check("the devices of a person are listed with this one first, and can be renamed", async () => {
  const other = await demo("bob", { device: "laptop" });
  await isActive(other);
  await bob.getByRole("button", { name: "More" }).click();
  await bob.getByRole("menuitem", { name: "Devices", exact: true }).click();
  const devices = bob.getByRole("dialog", { name: "Devices" }).getByRole("listitem");
  await eventually(async () => assert.ok((await devices.count()) >= 2));
  await devices.first().getByText("This device").waitFor();
  await devices.first().getByRole("button", { name: /^Actions for/ }).click();
  await bob.getByRole("menuitem", { name: "Rename" }).click();
  await bob.getByRole("textbox", { name: "Name of the device" }).fill("Kitchen");
  await bob.keyboard.press("Enter");
  await devices.first().getByText("Kitchen").waitFor();
  await isAccessible(bob);
  await bob.keyboard.press("Escape");
});

check("a removed device is signed out at once, and does not come back by itself", async () => {
  const lost = await demo("bob", { device: "lost" });
  await isActive(lost);
  const id = await lost.evaluate(() => localStorage.getItem("confab.lost.device"));
  await bob.getByRole("button", { name: "More" }).click();
  await bob.getByRole("menuitem", { name: "Devices", exact: true }).click();
  const entry = bob.locator(`.devices [data-device='${id}']`);
  await entry.getByRole("button", { name: /^Actions for/ }).click();
  await bob.getByRole("menuitem", { name: "Remove" }).click();
  await bob.getByRole("alertdialog").getByRole("button", { name: "Remove", exact: true }).click();
  await lost.getByText("This device was removed.").waitFor();
  await eventually(async () => assert.equal(await entry.count(), 0));
  await bob.keyboard.press("Escape");
  await isActive(bob);
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
