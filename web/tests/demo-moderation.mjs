// The demo's moderation page: reports, bans, time-outs, and the audit log.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, fitsItsWidth, isAccessible, PHONE, run, tokenOf } from "./harness.mjs";
import { isActive } from "./pages.mjs";

let alice, dave;

async function openWorkspace(page) {
  await isActive(page);
  await page.getByRole("list", { name: "Workspaces" }).getByRole("link").click();
  await page.getByRole("heading", { name: "Lakeside Hikers" }).waitFor();
}

const tab = (name) => alice.getByRole("tab", { name });
const rows = (list) => alice.getByRole("list", { name: list, exact: true }).getByRole("listitem");

async function choose(page, menu, item) {
  await page.getByRole("button", { name: menu }).click();
  await page.getByRole("menuitem", { name: item }).click();
}

async function channelId(user, name) {
  const query = "{ myWorkspaces { edges { node { channels { edges { node { id name } } } } } } }";
  const { myWorkspaces } = await ask(user, query);
  return myWorkspaces.edges[0].node.channels.edges.find(({ node }) => node.name === name).node.id;
}

check("a member reports a message, and the owner finds it in the queue", async () => {
  const general = await channelId("dave", "general");
  alice = await demo("alice");
  dave = await demo("dave", { path: `#/c/${general}` });
  const message = dave.locator(".bubble").filter({ hasText: "Whose red boots" });
  await message.hover();
  await message.getByRole("button", { name: "Actions for message" }).click();
  await dave.getByRole("menuitem", { name: "Report" }).click();
  const dialog = dave.getByRole("dialog", { name: "Report this message" });
  await isAccessible(dave, { within: "dialog" });
  await dialog.getByLabel("Why").selectOption("HARASSMENT");
  await dialog.getByLabel("Note for the moderators").fill("These are my boots.");
  await dialog.getByRole("button", { name: "Report" }).click();
  await dialog.waitFor({ state: "detached" });

  await openWorkspace(alice);
  await alice.getByRole("link", { name: "Moderation" }).click();
  const report = rows("Reports").filter({ hasText: "These are my boots." });
  await report.getByText("Harassment").waitFor();
  await report.getByText("Whose red boots are these").waitFor();
  await isAccessible(alice);
});

check("resolving a report with a time-out times the author out, and moves the report to the resolved ones", async () => {
  const report = rows("Reports").filter({ hasText: "These are my boots." });
  await report.getByRole("button", { name: "Act on this report" }).click();
  await alice.getByRole("menuitem", { name: "Time out for a day" }).click();
  await alice.getByRole("alertdialog").getByRole("button", { name: "Time out" }).click();
  await eventually(async () => assert.equal(await report.count(), 0));
  await alice.getByRole("button", { name: "Resolved" }).click();
  await report.getByText("Timed out by Alice Archer").waitFor();
  await isAccessible(alice);
  await alice.getByRole("list", { name: "Members" }).getByRole("listitem").filter({ hasText: "Erin" }).getByText("Timed out").waitFor();
  const { workspace } = await ask("alice", "query($id: ID!) { workspace(id: $id) { members(query: \"Erin\") { edges { node { timedOutUntil } } } } }", { id: await workspaceId() });
  assert.ok(Date.parse(workspace.members.edges[0].node.timedOutUntil) > Date.now());
});

check("a refused action shows why, and the report stays open", async () => {
  await alice.getByRole("button", { name: "Open", exact: true }).click();
  const report = rows("Reports").filter({ hasText: "You have won a mountain" });
  await report.waitFor();
  tokenOf("lottery");
  await ask("lottery", "mutation($id: ID!) { leaveWorkspace(workspaceId: $id) }", { id: await workspaceId() });
  await report.getByRole("button", { name: "Act on this report" }).click();
  await alice.getByRole("menuitem", { name: "Remove" }).click();
  await alice.getByRole("alertdialog").getByRole("button", { name: "Remove" }).click();
  await alice.getByText(/not a member/i).waitFor();
  assert.equal(await report.count(), 1);
});

check("a report is resolved with the keyboard, and the focus stays on the page", async () => {
  const report = rows("Reports").filter({ hasText: "You have won a mountain" });
  await report.getByRole("button", { name: "Act on this report" }).press("ArrowDown");
  await alice.getByRole("menuitem", { name: "Recall the message" }).press("Enter");
  await alice.getByRole("alertdialog").getByRole("button", { name: "Recall" }).press("Enter");
  await eventually(async () => assert.equal(await report.count(), 0));
  assert.equal(await alice.evaluate(() => document.activeElement?.id), "moderation-panel");
  await tab("Reports").press("ArrowRight");
  await rows("Bans").filter({ hasText: "Boat Bargains" }).getByText("Advertising, after a warning").waitFor();
  await tab("Bans").press("ArrowLeft");
  await rows("Reports").first().waitFor();
});

check("a banned member leaves at once, and can join again only after the ban is lifted", async () => {
  await dave.goto(new URL(`/demo?as=dave#/w/${await workspaceId()}`, dave.url()).href);
  await dave.getByRole("heading", { name: "Lakeside Hikers" }).waitFor();
  assert.equal(await dave.getByRole("link", { name: "Moderation" }).count(), 0);
  await choose(alice, "Moderate Dave Dyer", "Ban…");
  const dialog = alice.getByRole("dialog", { name: "Ban Dave Dyer" });
  await isAccessible(alice, { within: "dialog" });
  await dialog.getByLabel("Reason").fill("The wrong lake, again");
  await dialog.getByRole("button", { name: "Ban" }).click();
  await dialog.waitFor({ state: "detached" });
  await tab("Bans").click();
  const ban = rows("Bans").filter({ hasText: "Dave" });
  await ban.getByText("The wrong lake, again").waitFor();
  const { myWorkspaces } = await ask("dave", "{ myWorkspaces { edges { node { id } } } }");
  assert.deepEqual(myWorkspaces.edges, []);
  await ban.getByRole("button", { name: "Lift ban" }).click();
  await alice.getByRole("alertdialog").getByRole("button", { name: "Lift ban" }).click();
  await eventually(async () => assert.equal(await ban.count(), 0));
  await ask("dave", "mutation($id: ID) { joinWorkspace(workspaceId: $id) { id } }", { id: await workspaceId() });
});

check("the audit log names who did what, with the reason and the values", async () => {
  await tab("Audit log").click();
  await alice.getByRole("button", { name: "Moderation", exact: true }).click();
  const entry = rows("Audit log").filter({ hasText: "Alice Archer banned Dave Dyer" }).first();
  await entry.getByText("The wrong lake, again").waitFor();
  await rows("Audit log").filter({ hasText: "Alice Archer resolved a report about Erin Archer" }).getByText("Timed out").waitFor();
  await alice.getByRole("button", { name: "Roles", exact: true }).click();
  await rows("Audit log").filter({ hasText: "changed the roles of Carol Cook" }).getByText("Guide, Organiser").waitFor();
  await isAccessible(alice);
});

check("members without permissions get a notice instead of the page", async () => {
  await dave.goto(new URL(`/demo?as=dave#/w/${await workspaceId()}/moderation`, dave.url()).href);
  await dave.reload();
  await dave.getByText("Nothing for you here").waitFor();
});

check("the page fits a phone", async () => {
  await alice.setViewportSize(PHONE);
  for (const name of ["Reports", "Bans", "Audit log"]) {
    await tab(name).click();
    await fitsItsWidth(alice);
  }
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

async function workspaceId() {
  return (await ask("alice", "{ myWorkspaces { edges { node { id } } } }")).myWorkspaces.edges[0].node.id;
}

await run();
