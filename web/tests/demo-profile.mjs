// The user's own profile in the demo: name and picture, displayed at once, for others too.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, fitsItsWidth, isAccessible, PHONE, run } from "./harness.mjs";
import { article, isActive, log, openSession, openWorkspace, row, undo } from "./pages.mjs";

const PICTURE = "https://pictures.example/carol.png";
const PIXEL = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

let alice, carol, dave;

/** Serves the picture, and nothing at another address. */
const serve = (context) =>
  context.route("https://pictures.example/**", (route) => (route.request().url() === PICTURE ? route.fulfill({ contentType: "image/png", body: PIXEL }) : route.fulfill({ status: 404, body: "" })));
const dialog = (page) => page.getByRole("dialog", { name: "Your profile" });
const name = (page) => dialog(page).getByRole("textbox", { name: "Name" });
const address = (page) => dialog(page).getByRole("textbox", { name: "Address of a picture" });
const save = (page) => dialog(page).getByRole("button", { name: "Save" });
const openDialog = async (page) => {
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByRole("menuitem", { name: "Your profile" }).click();
  await name(page).waitFor();
};
const stored = async () => (await ask("carol", "{ me { displayName avatarUrl } }")).me;

check("a new name is displayed at once for the user and for others: in the list, the title, the group and the workspace", async () => {
  [carol, alice, dave] = [await demo("carol", { prepare: serve }), await demo("alice", { prepare: serve }), await demo("dave", { prepare: serve })];
  for (const page of [carol, alice, dave]) await isActive(page);
  await openSession(alice, "Carol Cook");
  await openSession(dave, "Book club");
  await log(dave).getByText("Carol Cook", { exact: true }).first().waitFor();
  const bob = await demo("bob");
  await isActive(bob);
  await openWorkspace(bob);
  await openDialog(carol);
  await name(carol).fill("  Carol Climber ");
  await name(carol).press("Enter");
  await dialog(carol).waitFor({ state: "detached" });
  await carol.getByRole("heading", { name: "Carol Climber" }).waitFor();
  await row(alice, "Carol Climber").waitFor();
  await alice.getByRole("main").getByRole("heading", { name: "Carol Climber" }).waitFor();
  await log(dave).getByText("Carol Climber", { exact: true }).first().waitFor();
  await bob.getByRole("list", { name: "Members" }).getByText("Carol Climber").waitFor();
  assert.equal((await stored()).displayName, "Carol Climber");
  await bob.context().close();
});

check("saving a profile can be undone", async () => {
  await undo(carol);
  await carol.getByRole("heading", { name: "Carol Cook" }).waitFor();
  await row(alice, "Carol Cook").waitFor();
  await eventually(async () => assert.equal((await stored()).displayName, "Carol Cook"));
});

check("a picture is shown before it is saved, then for others at once, and is removed again", async () => {
  await openDialog(carol);
  await address(carol).fill(PICTURE);
  await dialog(carol).locator(`img.loaded[src="${PICTURE}"]`).waitFor();
  assert.equal((await stored()).avatarUrl, null);
  await isAccessible(carol, { within: "dialog" });
  await save(carol).click();
  await row(alice, "Carol Cook").locator("img.loaded").waitFor();
  await openDialog(carol);
  await dialog(carol).getByRole("button", { name: "Remove picture" }).click();
  await save(carol).click();
  await row(alice, "Carol Cook").locator("img").waitFor({ state: "detached" });
  assert.equal((await stored()).avatarUrl, null);
});

check("the form shows what cannot be saved: no name, no address, no picture at the address", async () => {
  await openDialog(carol);
  assert.ok(await save(carol).isDisabled());
  await name(carol).fill("   ");
  assert.ok(await save(carol).isDisabled());
  await name(carol).fill("Carol C");
  await address(carol).fill("javascript:alert(1)");
  await dialog(carol).getByText("An address begins with https:// or http://").waitFor();
  assert.ok(await save(carol).isDisabled());
  await address(carol).fill("https://pictures.example/none.png");
  await dialog(carol).getByText("There is no picture at this address.").waitFor();
  await address(carol).fill("");
  await carol.keyboard.press("Escape");
  await dialog(carol).waitFor({ state: "detached" });
  assert.equal((await stored()).displayName, "Carol Cook");
});

check("a refused profile stays in the form, with the reason", async () => {
  await openDialog(carol);
  await name(carol).fill("Carol\u0007");
  await save(carol).click();
  await carol.getByRole("alert").getByText(/control characters/).waitFor();
  assert.equal(await name(carol).inputValue(), "Carol\u0007");
  await carol.keyboard.press("Escape");
});

check("the profile leads to the status and back, on a phone in dark colours too", async () => {
  const phone = await demo("carol", { device: "phone", viewport: PHONE, colorScheme: "dark" });
  await isActive(phone);
  await openDialog(phone);
  await fitsItsWidth(phone);
  await isAccessible(phone);
  await dialog(phone).getByRole("button", { name: "Set a status" }).click();
  const status = phone.getByRole("dialog", { name: "Your status" });
  await status.getByRole("textbox", { name: "Status text" }).fill("Climbing");
  await status.getByRole("button", { name: "Save" }).click();
  await alice.getByRole("main").getByText("Climbing").first().waitFor();
  await phone.getByRole("button", { name: /^Your status/ }).click();
  await status.getByRole("button", { name: "Edit profile" }).click();
  await name(phone).waitFor();
});

check("no browser reported an error", () => assert.deepEqual(complained(), []));

await run();
