// The demo's notification settings: for all devices, and of one conversation.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, fitsItsWidth, isAccessible, PHONE, run } from "./harness.mjs";
import { choose, isActive, notificationsDialog as dialog, openNotifications as openDialog } from "./pages.mjs";

const settings = async (user) => {
  const query = "{ notificationSettings { level doNotDisturbFrom doNotDisturbTo timeZone delaySeconds showPreview keywords } }";
  return (await ask(user, query)).notificationSettings;
};
const setTo = (user, wanted) => eventually(async () => assert.deepEqual(await settings(user), { ...(await settings(user)), ...wanted }));

let dave;

check("each setting is stored when it is changed", async () => {
  dave = await demo("dave", { timezoneId: "Asia/Tokyo" });
  await isActive(dave);
  await openDialog(dave);
  await dialog(dave).getByRole("radio", { name: /^Mentions only/ }).check();
  await setTo("dave", { level: "MENTIONS" });
  await dialog(dave).getByRole("textbox", { name: "Words that notify like a mention" }).fill("release,  coffee ,release");
  await dave.keyboard.press("Enter");
  await setTo("dave", { keywords: ["release", "coffee"] });
  await dialog(dave).getByRole("combobox", { name: "Wait while a device is in use" }).selectOption("1 minute");
  await setTo("dave", { delaySeconds: 60 });
  await dialog(dave).getByRole("checkbox", { name: /^Show the text of messages/ }).uncheck();
  await setTo("dave", { showPreview: false });
});

check("do not disturb has two times in the time zone of the user", async () => {
  await dialog(dave).getByRole("checkbox", { name: /^Do not disturb every day/ }).check();
  await setTo("dave", { doNotDisturbFrom: "22:00", doNotDisturbTo: "07:00", timeZone: "Asia/Tokyo" });
  await dialog(dave).getByLabel("From", { exact: true }).fill("23:30");
  await dialog(dave).getByLabel("From", { exact: true }).blur();
  await setTo("dave", { doNotDisturbFrom: "23:30", doNotDisturbTo: "07:00" });
  await isAccessible(dave);
  await dialog(dave).getByRole("checkbox", { name: /^Do not disturb every day/ }).uncheck();
  await setTo("dave", { doNotDisturbFrom: null, doNotDisturbTo: null });
});

check("two equal times are refused with a reason, and what is stored stays displayed", async () => {
  await dialog(dave).getByRole("checkbox", { name: /^Do not disturb every day/ }).check();
  await dialog(dave).getByLabel("From", { exact: true }).fill("07:00");
  await dialog(dave).getByLabel("From", { exact: true }).blur();
  await dave.getByRole("alert").getByText("The two times must differ.").waitFor();
  await eventually(async () => assert.equal(await dialog(dave).getByLabel("From", { exact: true }).inputValue(), "22:00"));
});

check("the settings are the same on another device, in dark colours and on a phone", async () => {
  const phone = await demo("dave", { device: "phone", viewport: PHONE, colorScheme: "dark" });
  await isActive(phone);
  await openDialog(phone);
  await dialog(phone).getByRole("radio", { name: /^Mentions only/, checked: true }).waitFor();
  assert.equal(await dialog(phone).getByLabel("From", { exact: true }).inputValue(), "22:00");
  await fitsItsWidth(phone);
  await isAccessible(phone);
  await phone.setViewportSize({ ...PHONE, height: 500 });
  await dialog(phone).getByRole("checkbox", { name: /^Show the text of messages/ }).scrollIntoViewIfNeeded();
  await dialog(phone).getByRole("button", { name: "Close" }).click({ trial: true });
  const top = async (element) => (await element.boundingBox()).y;
  const header = await top(dialog(phone).getByRole("heading", { name: "Notifications", exact: true }));
  assert.ok(header >= (await top(dialog(phone))) && header < (await top(dialog(phone))) + 40);
  await phone.context().close();
});

check("one conversation may have its own level", async () => {
  await dave.keyboard.press("Escape");
  const level = async () => (await ask("dave", `{ session(conversationId: "p_alice_dave") { notifications } }`)).session.notifications;
  for (const [name, wanted] of [["Nothing", "NONE"], ["As in your settings", "MENTIONS"], ["All messages", "ALL"]]) {
    await choose(dave, "Alice Archer", "Notifications…");
    const choice = dave.getByRole("dialog", { name: "Notifications for Alice Archer" });
    await choice.getByRole("button", { name }).click();
    await choice.waitFor({ state: "detached" });
    assert.equal(await level(), wanted);
  }
  await choose(dave, "Alice Archer", "Notifications…");
  await dave.getByRole("button", { name: /^All messages/, pressed: true }).waitFor();
  await isAccessible(dave);
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
