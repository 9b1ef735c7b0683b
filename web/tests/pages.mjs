// Locators of the demo, by role and name; for a page, or for a frame in one.

export const list = (page) => page.getByRole("list", { name: "Sessions" });

/** A session's row: its name starts with the title, then counts and marks, then the last message. */
export const row = (page, title) => list(page).getByRole("link", { name: new RegExp(`^${title}\\b`) });

/** The names of all rows in order: title, counts, marks. */
export const rows = (page) => list(page).getByRole("link").evaluateAll((links) => links.map((link) => link.querySelector(".title").textContent));

/** The row whose name contains this as well. */
export const rowThatSays = (page, title, said) => row(page, title).and(page.getByRole("link", { name: said }));

/**
 * Opens a session's conversation, or its list. Returns when it is displayed: for a moment after a click, the page still shows the
 * previous one. A click is never repeated here, because a lost click would be an error of the demo.
 */
export async function openSession(page, title) {
  await row(page, title).click();
  await page.getByRole("heading", { name: title, exact: true }).waitFor();
}

/** Waits until the page has everything, and receives what happens. */
export const isActive = (page) => page.locator("[data-connection='Active']").waitFor();

export const log = (page) => page.getByRole("log", { name: "Messages" });
export const article = (page, text) => log(page).getByRole("article").filter({ hasText: text });
export const status = (page, text) => article(page, text).getAttribute("data-status");
export const box = (page) => page.getByRole("textbox", { name: "Message" });

export async function write(page, text) {
  await box(page).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

/** A message of a person, not one that announces it. */
export const bubble = (page, text) => article(page, text).and(page.locator(".bubble"));

/** Chooses from a message's menu. */
export async function act(page, text, action) {
  await bubble(page, text).hover();
  await bubble(page, text).getByRole("button", { name: "Actions for message" }).click();
  await page.getByRole("menuitem", { name: action, exact: true }).click();
}

/** Answers the confirmation of an action that cannot be undone. */
export async function confirm(page, question, verb) {
  await page.getByRole("alertdialog", { name: question }).getByRole("button", { name: verb, exact: true }).click();
}

/** Chooses from a session's menu. */
export async function choose(page, title, action) {
  await row(page, title).hover();
  await list(page).getByRole("button", { name: `Actions for ${title}` }).click();
  await page.getByRole("menuitem", { name: action, exact: true }).click();
}

export const notificationsDialog = (page) => page.getByRole("dialog", { name: "Notifications", exact: true });

export async function openNotifications(page) {
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByRole("menuitem", { name: "Notifications", exact: true }).click();
  await notificationsDialog(page).waitFor();
}

/** Undoes the last action. */
export const undo = (page) => page.getByRole("status").getByRole("button", { name: "Undo" }).click();

/** A channel's row in the list of its workspace. */
export const channel = (page, name) => page.getByRole("link", { name: new RegExp(`^${name}\\b`) });

/** Opens the demo's workspace. */
export async function openWorkspace(page) {
  await page.getByRole("link", { name: /^Lakeside Hikers/ }).click();
  await channel(page, "general").waitFor();
}

/** Chooses from a channel's menu. */
export async function chooseOfChannel(page, name, action) {
  await channel(page, name).hover();
  await page.getByRole("button", { name: `Actions for ${name}` }).click();
  await page.getByRole("menuitem", { name: action, exact: true }).click();
}
