// Photos and files in the demo: sent from a phone, seen on another device.
import assert from "node:assert/strict";
import { deflateSync } from "node:zlib";

import { PHONE, check, complained, demo, eventually, fitsItsWidth, isAccessible, run } from "./harness.mjs";
import { box, log, openSession, row } from "./pages.mjs";

let phone, desk;

/** A picture of this size, with colours that change from corner to corner. */
function png(width, height) {
  const rows = Buffer.alloc(height * (1 + 3 * width));
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) rows.set([(255 * x) / width, (255 * y) / height, 120], y * (1 + 3 * width) + 1 + 3 * x);
  }
  const crcs = Array.from({ length: 256 }, (_, n) => Array(8).fill().reduce((c) => (c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1), n));
  const crc = (bytes) => ~bytes.reduce((c, byte) => crcs[(c ^ byte) & 255] ^ (c >>> 8), -1) >>> 0;
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const whole = Buffer.alloc(body.length + 8);
    whole.writeUInt32BE(data.length);
    body.copy(whole, 4);
    whole.writeUInt32BE(crc(body), body.length + 4);
    return whole;
  };
  const size = Buffer.alloc(13);
  size.writeUInt32BE(width);
  size.writeUInt32BE(height, 4);
  size.set([8, 2], 8);
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", size), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}

const photo = (name) => ({ name, mimeType: "image/png", buffer: png(640, 480) });
const choose = (page, ...files) => page.locator("input[type=file]").setInputFiles(files);
const send = (page) => page.getByRole("button", { name: "Send" }).click();
const tray = (page) => page.getByRole("list", { name: "Files" });
const isLoaded = (picture) => picture.evaluate((each) => each.complete && each.naturalWidth > 0);

check("a photo sent from a phone appears on the other person's device", async () => {
  desk = await demo("bob");
  phone = await demo("alice", { viewport: PHONE, hasTouch: true, isMobile: true });
  await openSession(desk, "Alice Archer");
  await openSession(phone, "Bob Baker");
  await choose(phone, photo("beach.png"));
  await tray(phone).getByRole("button", { name: "Describe beach.png" }).click();
  await phone.getByLabel("Description").fill("The sea in the evening");
  await phone.getByRole("button", { name: "Done" }).click();
  const chosen = Date.now();
  await send(phone);
  for (const page of [desk, phone]) {
    const picture = log(page).getByAltText("The sea in the evening");
    await eventually(async () => assert.ok(await isLoaded(picture)));
    const { width, height } = await picture.boundingBox();
    assert.ok(Math.abs(width / height - 640 / 480) < 0.02, `${width} by ${height}`);
  }
  console.error(`sent, and seen on both devices after ${Date.now() - chosen} ms`); // for the benchmarks
  await fitsItsWidth(phone);
  await isAccessible(phone);
});

check("a picture opens in the size of the window, and Escape closes it", async () => {
  await desk.getByRole("button", { name: "Open the picture: The sea in the evening" }).click();
  const lightbox = desk.getByRole("dialog", { name: "The sea in the evening" });
  await eventually(async () => assert.ok(await isLoaded(lightbox.getByRole("img"))));
  await isAccessible(desk, { within: ".lightbox" });
  await desk.keyboard.press("Escape");
  await lightbox.waitFor({ state: "detached" });
});

check("files are sent and loaded again after the network failed, several in one message", async () => {
  let failures = 2;
  await phone.route(/\/files\//, (route) => (route.request().method() === "PUT" && failures-- > 0 ? route.abort() : route.continue()));
  let broken = 1;
  await desk.route(/\/files\//, (route) => (broken-- > 0 ? route.abort() : route.continue()));
  await choose(phone, photo("one.png"), { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("notes") });
  await box(phone).fill("Two at once");
  await send(phone);
  const message = log(desk).getByRole("article").filter({ hasText: "Two at once" });
  await message.getByRole("link", { name: "Download notes.txt, 5 B" }).waitFor();
  await eventually(async () => assert.ok(await isLoaded(message.locator(".picture img"))));
  assert.ok(failures < 1 && broken < 1);
  assert.equal(await message.count(), 1);
  const downloading = desk.waitForEvent("download");
  await message.getByRole("link", { name: /^Download notes.txt/ }).click();
  assert.equal((await downloading).suggestedFilename(), "notes.txt");
});

check("a file that is refused says why, and can be removed", async () => {
  await choose(phone, { name: "broken.png", mimeType: "image/png", buffer: png(64, 64).subarray(0, 90) }, { name: "empty.txt", mimeType: "text/plain", buffer: Buffer.alloc(0) });
  await tray(phone).getByText("This file was refused: it is damaged, or not safe.").waitFor();
  await tray(phone).getByText("This file is empty.").waitFor();
  for (const name of ["broken.png", "empty.txt"]) await phone.getByRole("button", { name: `Remove ${name}` }).click();
  await tray(phone).waitFor({ state: "detached" });
});

check("a file is removed from a message that waits for it, and the message is sent with the others", async () => {
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await phone.route(/\/files\//, async (route) => (route.request().method() === "PUT" && (await released), route.continue()));
  await choose(phone, photo("kept.png"), { name: "removed.txt", mimeType: "text/plain", buffer: Buffer.from("no") });
  await box(phone).fill("Only the photo");
  await send(phone);
  await log(phone).getByRole("button", { name: "Remove removed.txt" }).click();
  await eventually(async () => assert.equal(await log(phone).getByText("removed.txt").count(), 0));
  release();
  const message = log(desk).getByRole("article").filter({ hasText: "Only the photo" });
  await eventually(async () => assert.ok(await isLoaded(message.locator(".picture img"))));
  assert.equal(await message.getByRole("link").count(), 0);
  await phone.unroute(/\/files\//);
});

check("a pasted picture is sent as a spoiler, which a click shows", async () => {
  const bytes = [...png(320, 200)];
  await box(desk).evaluate((field, given) => {
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([new Uint8Array(given)], "ending.png", { type: "image/png" }));
    field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  }, bytes);
  await tray(desk).getByRole("button", { name: "Describe ending.png" }).click();
  await desk.getByRole("checkbox", { name: /Spoiler/ }).check();
  await desk.getByRole("button", { name: "Done" }).click();
  await send(desk);
  await log(phone).getByRole("button", { name: "Spoiler. Show the picture: ending.png" }).click();
  await eventually(async () => assert.ok(await isLoaded(log(phone).locator(".picture img").last())));
  await row(desk, "Alice Archer").getByText("Photo").waitFor();
});

check("no browser reported an error", async () => assert.deepEqual(complained(), []));

await run();
