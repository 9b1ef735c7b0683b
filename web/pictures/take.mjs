// Takes the pictures of README and docs from a Confab in development mode with a new data folder:
//   node web/pictures/take.mjs http://127.0.0.1:8000 FOLDER
// Writes FOLDER/*.png, and FOLDER/frames/*.png with their times, from which animate.py makes the animation.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { chromium } from "playwright-core";

const [url, folder] = process.argv.slice(2);
const frames = join(folder, "frames");
mkdirSync(frames, { recursive: true });

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--force-color-profile=srgb"] });

async function open(path, options) {
  const context = await browser.newContext({ locale: "en-GB", viewport: { width: 1200, height: 760 }, ...options });
  const page = await context.newPage();
  await page.goto(url + path);
  return page;
}

const settle = (page) => page.waitForTimeout(900);
const session = (place, title) => place.getByRole("link", { name: new RegExp(`^${title}`) });
const picture = (page, name) => page.screenshot({ path: join(folder, `${name}.png`) });

// --- the animation: two devices of Alice's, and Bob, who isn't seen

const two = await open("/demo?view=two", { viewport: { width: 1200, height: 720 } });
const bob = await open("/demo?as=bob");
const left = two.frameLocator("iframe[title='Left device']");
const right = two.frameLocator("iframe[title='Right device']");

const times = [];
/** Takes pictures for some ms, with real times, so that movement is natural. */
async function film(ms) {
  for (const end = Date.now() + ms; Date.now() < end; ) {
    times.push(Date.now());
    await two.screenshot({ path: join(frames, `${String(times.length).padStart(4, "0")}.png`) });
    await two.waitForTimeout(40);
  }
}
/** Shows a caption, for long enough to read it. */
async function say(words) {
  await two.evaluate((text) => {
    let caption = document.getElementById("caption");
    if (!caption) {
      caption = document.createElement("div");
      caption.id = "caption";
      caption.style.cssText =
        "position:fixed;left:50%;top:10px;transform:translateX(-50%);z-index:9;padding:10px 20px;border-radius:99px;" +
        "background:#0f172aee;color:#fff;font:600 17px system-ui,sans-serif;box-shadow:0 6px 24px #0006";
      document.body.append(caption);
    }
    caption.textContent = text;
  }, words);
  await film(900);
}
/** Films during an action. */
const filmed = (doing, ms) => Promise.all([doing(), film(ms)]);
const write = (place, text) => place.getByRole("textbox", { name: "Message" }).pressSequentially(text, { delay: 35 });

await settle(two);
await say("Alice, on two devices");
await say("Read on the left: the number on the right goes");
await filmed(() => session(left, "Bob Baker").click(), 1600);
await session(bob, "Alice Archer").click();
await say("Bob types, and answers");
await filmed(() => write(bob, "Candles are packed, none broken. Yet."), 1900);
await filmed(() => bob.keyboard.press("Enter"), 1300);
await say("Sent from the left: ticks turn blue when Bob has read it");
await filmed(() => write(left, "You are a hero"), 900);
await filmed(() => left.getByRole("button", { name: "Send" }).click(), 1800);
await say("Pinned on the right: it goes to the top on the left");
await filmed(async () => {
  await left.getByRole("textbox", { name: "Message" }).press("Escape");
  await right.getByRole("button", { name: /^Actions for Carol Cook/ }).click();
  await two.waitForTimeout(500);
  await right.getByRole("menuitem", { name: "Pin", exact: true }).click();
}, 2400);
await film(800);

writeFileSync(join(frames, "times.json"), JSON.stringify(times));

// --- stills

for (const colorScheme of ["light", "dark"]) {
  const page = await open("/demo?as=alice", { colorScheme });
  await session(page, "Weekend hike").click();
  await settle(page);
  await picture(page, `demo-${colorScheme}`);
  await page.context().close();
}

const phone = await open("/demo?as=alice", { viewport: { width: 390, height: 844 }, hasTouch: true, deviceScaleFactor: 2 });
await settle(phone);
await picture(phone, "demo-phone-list");
await session(phone, "Weekend hike").click();
await settle(phone);
await picture(phone, "demo-phone");
await phone.context().close();

for (const colorScheme of ["light", "dark"]) {
  const page = await open("/graphql", { colorScheme });
  await page.getByRole("button", { name: /Alice Archer/ }).click();
  await page.waitForTimeout(2500);
  await page.getByRole("button", { name: /Execute/ }).first().click();
  await page.waitForTimeout(1500);
  await picture(page, `playground-${colorScheme}`);
  await page.context().close();
}

await browser.close();
