// Measures the demo in Chromium: `node measure.mjs OPTIONS`, started by `python -m bench.demo`, which makes the options (JSON).
import { createRequire } from "node:module";

const { chromium } = createRequire(new URL("../../web/", import.meta.url))("playwright-core");

const options = JSON.parse(process.argv[2]);
const WIDE = { viewport: { width: 1200, height: 800 } };
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 3, hasTouch: true, isMobile: true };
const FRAME_MS = 1000 / 60;
/** How many times slower the CPU of a mid-range phone is than that of a desktop computer. */
const SLOWER = 4;
/** Lighthouse's slow 4G. */
const SLOW_4G = { offline: false, latency: 150, downloadThroughput: (1.6e6 / 8), uploadThroughput: (750e3 / 8) };
const PATIENCE_MS = 60_000;

const browser = await chromium.launch({
  executablePath: options.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--enable-precise-memory-info"],
});

/** Signs in once; later pages start as those of a returning user. */
async function signedIn() {
  const context = await browser.newContext(WIDE);
  const page = await context.newPage();
  await page.goto(`${options.url}/demo#token=${options.token}`);
  await page.locator(".session").first().waitFor({ timeout: PATIENCE_MS });
  const state = await context.storageState();
  await context.close();
  return state;
}

/** In the page: notes the time of each frame, and long tasks. */
function watchFrames() {
  const noted = { frames: [], longest: 0, longTasks: 0 };
  let running = true;
  const next = (at) => {
    noted.frames.push(at);
    if (running) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
  const observer = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) {
      noted.longest = Math.max(noted.longest, duration);
      noted.longTasks += 1;
    }
  });
  observer.observe({ type: "longtask" });
  window.endOfFrames = () => {
    running = false;
    observer.disconnect();
    return noted;
  };
}

function describe(name, { frames, longest, longTasks }, more) {
  const gaps = frames.slice(1).map((at, index) => at - frames[index]);
  const missed = (factor) => gaps.filter((gap) => gap > factor * FRAME_MS).length;
  const share = (count) => `${((100 * count) / gaps.length).toFixed(2)} %`;
  const worst = Math.max(...gaps);
  // Timestamps vary by a little: a frame is late if at least one refresh of the screen was missed.
  console.log(
    `${name.padEnd(46)} ${String(gaps.length).padStart(5)} frames, later than 16.7 ms: ${share(missed(1.5))}, than 33 ms: ${share(missed(2.5))}, ` +
      `worst ${worst.toFixed(0)} ms; longest task ${longest ? `${longest.toFixed(0)} ms` : "below 50 ms"} (${longTasks} above 50 ms); ${more}`,
  );
}

async function busySeconds(session) {
  const { metrics } = await session.send("Performance.getMetrics");
  return metrics.find(({ name }) => name === "TaskDuration").value;
}

async function sizes(page, session) {
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  const heap = metrics.find(({ name }) => name === "JSHeapUsedSize").value;
  const [nodes, rows] = await page.evaluate(() => [document.querySelectorAll("*").length, document.querySelectorAll(".messages article").length]);
  return `${nodes} elements, ${rows} messages in the DOM, heap ${(heap / 1e6).toFixed(1)} MB`;
}

async function open(profile, state, path) {
  const context = await browser.newContext({ ...profile, storageState: state, locale: "en-GB" });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable");
  await page.goto(`${options.url}/demo${path}`);
  return { page, session };
}

/** The seq of the message in the middle of the screen. */
const place = (page) =>
  page.evaluate(() => {
    const { top, height } = document.querySelector(".messages").getBoundingClientRect();
    const middle = top + height / 2;
    const all = [...document.querySelectorAll(".messages article[data-seq]")];
    return Number(all.find((each) => each.getBoundingClientRect().bottom >= middle)?.dataset.seq);
  });

const EVERY_MS = 16;

/** Calls step until the time is over, as often as a device reports movements. A busy page gets the same input: answers are not awaited. */
async function steadily(milliseconds, step) {
  const sent = [];
  const began = performance.now();
  for (let count = 0; performance.now() - began < milliseconds; count += 1) {
    sent.push(step(performance.now() - began));
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, began + (count + 1) * EVERY_MS - performance.now())));
  }
  await Promise.all(sent);
}

/** A wheel that is turned all the time. Up: to older messages. */
const wheel = (isUp, pixelsPerSecond) => async (session, { x, y, width, height }, milliseconds) => {
  let turned = 0;
  await steadily(milliseconds, (elapsed) => {
    const deltaY = Math.round((elapsed * pixelsPerSecond) / 1000) - turned;
    turned += deltaY;
    return session.send("Input.dispatchMouseEvent", { type: "mouseWheel", x: x + width / 2, y: y + height / 2, deltaX: 0, deltaY: isUp ? -deltaY : deltaY });
  });
};

/** A finger that moves over the screen again and again, and rests between. If it is lifted while it moves, the page scrolls on by itself. */
const finger = (isUp, pixelsPerSecond, isFling) => async (session, { x, y, width, height }, milliseconds) => {
  const touch = (type, at) => session.send("Input.dispatchTouchEvent", { type, touchPoints: type === "touchEnd" ? [] : [{ x: x + width / 2, y: at }] });
  const wait = (time) => new Promise((resolve) => setTimeout(resolve, time));
  const [from, to] = isUp ? [y + 0.15 * height, y + 0.85 * height] : [y + 0.85 * height, y + 0.15 * height];
  const stroke = (1000 * Math.abs(to - from)) / pixelsPerSecond;
  for (const end = performance.now() + milliseconds; performance.now() < end; ) {
    await touch("touchStart", from);
    await steadily(stroke, (elapsed) => touch("touchMove", from + ((to - from) * Math.min(elapsed, stroke)) / stroke));
    if (!isFling) await wait(100);
    await touch("touchEnd");
    await wait(isFling ? 400 : 50);
  }
};

async function scrolled(page, session, name, where, gesture) {
  const isChat = where === ".messages";
  const box = await page.locator(where).boundingBox();
  const before = isChat && (await place(page));
  await page.evaluate(watchFrames);
  const busyBefore = await busySeconds(session);
  const began = performance.now();
  await gesture(session, box, 1000 * options.seconds);
  const busy = (await busySeconds(session)) - busyBefore;
  const seconds = (performance.now() - began) / 1000;
  const noted = await page.evaluate(() => window.endOfFrames());
  const reached = isChat ? `from message ${before} to ${await place(page)}; ` : "";
  describe(name, noted, `${reached}main thread busy ${((100 * busy) / seconds).toFixed(0)} %; ${await sizes(page, session)}`);
}

/** The limit of the machine: frames of a page that only moves a box. */
async function still() {
  const page = await browser.newPage(WIDE);
  await page.setContent("<style>@keyframes move { to { translate: 90vw } } p { width: 99px; height: 99px; background: red; animation: move 1s infinite alternate }</style><p>");
  await page.evaluate(watchFrames);
  await page.waitForTimeout(1000 * options.seconds);
  describe("a page without work, for comparison", await page.evaluate(() => window.endOfFrames()), "");
  await page.close();
}

async function scroll(state) {
  await still();
  const path = `#/c/${options.channel}`;
  for (const [name, profile, slower, up, down] of [
    ["wheel, 3,000 px/s", WIDE, 1, wheel(true, 3000), wheel(false, 3000)],
    ["drag (phone)", PHONE, 1, finger(true, 1500, false), finger(false, 1500, false)],
    ["fling (phone)", PHONE, 1, finger(true, 4000, true), finger(false, 4000, true)],
    [`fling (phone, CPU ${SLOWER} times slower)`, PHONE, SLOWER, finger(true, 4000, true), finger(false, 4000, true)],
  ]) {
    const { page, session } = await open(profile, state, path);
    await page.locator(".messages article").last().waitFor({ timeout: PATIENCE_MS });
    await page.waitForTimeout(1000);
    if (slower > 1) await session.send("Emulation.setCPUThrottlingRate", { rate: slower });
    await scrolled(page, session, `${name}, up`, ".messages", up);
    await scrolled(page, session, `${name}, down again`, ".messages", down);
    await page.context().close();
  }
  const { page, session } = await open(WIDE, state, "");
  await page.locator(".session").first().waitFor({ timeout: PATIENCE_MS });
  await page.waitForTimeout(1000);
  await scrolled(page, session, "wheel, list of conversations", ".sessions", wheel(false, 3000));
  console.log(`  ${await page.locator(".session").count()} rows in the DOM`);
  await page.context().close();
}

/** Loads older pages as fast as they come, until all are there or the time is over. */
async function deep(state) {
  const { page, session } = await open(WIDE, state, `#/c/${options.channel}`);
  await page.locator(".messages article").last().waitFor({ timeout: PATIENCE_MS });
  await page.waitForTimeout(1000);
  const newest = await place(page);
  console.log(`before loading all                  ${await sizes(page, session)}`);
  await page.evaluate(watchFrames);
  const began = Date.now();
  const oldest = await page.evaluate(async (milliseconds) => {
    const box = document.querySelector(".messages");
    const first = () => Number(box.querySelector("article[data-seq]").dataset.seq);
    for (const end = Date.now() + milliseconds; Date.now() < end && first() > 1; ) {
      box.scrollTop = 0;
      await new Promise((resolve) => requestAnimationFrame(resolve));
    }
    return first();
  }, 1000 * options.deepSeconds);
  const passed = newest - oldest;
  const seconds = (Date.now() - began) / 1000;
  const noted = await page.evaluate(() => window.endOfFrames());
  describe("all older messages, to the top", noted, `${passed} messages in ${seconds.toFixed(0)} s, ${(passed / seconds).toFixed(0)} a second; ${await sizes(page, session)}`);
  await page.context().close();
}

/** In the page, before its programs: the times when the first conversation's name and the first messages have been painted. */
function watchStart() {
  const times = {};
  const painted = (name) => {
    times[name] = 0;
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => (times[name] = performance.now());
      port2.postMessage(null);
    });
  };
  const look = () => {
    if (!("name" in times) && document.querySelector(".session .title")) painted("name");
    if (!("messages" in times) && document.querySelector(".messages article")) painted("messages");
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true });
  window.startTimes = times;
}

async function start(state) {
  const found = [];
  for (const path of ["", `#/c/${options.conversation}`]) {
    for (let turn = 0; turn < options.starts; turn += 1) {
      const context = await browser.newContext({ ...PHONE, storageState: state, locale: "en-GB" });
      const page = await context.newPage();
      const session = await context.newCDPSession(page);
      let bytes = 0;
      const byType = {};
      session.on("Network.responseReceived", ({ requestId, response }) => (byType[requestId] = response.mimeType));
      const received = {};
      session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
        bytes += encodedDataLength;
        received[byType[requestId]] = (received[byType[requestId]] ?? 0) + encodedDataLength;
      });
      await session.send("Network.enable");
      await session.send("Network.emulateNetworkConditions", SLOW_4G);
      await session.send("Emulation.setCPUThrottlingRate", { rate: SLOWER });
      await page.addInitScript(watchStart);
      await page.goto(`${options.url}/demo${path}`, { waitUntil: "commit" });
      const wanted = path ? "messages" : "name";
      await page.waitForFunction((name) => window.startTimes?.[name] > 0, wanted, { timeout: PATIENCE_MS });
      const times = await page.evaluate(() => window.startTimes);
      found.push({ path, time: times[wanted], bytes, received });
      await context.close();
    }
    const own = found.filter((each) => each.path === path).sort((a, b) => a.time - b.time);
    const median = own[Math.floor(own.length / 2)];
    const parts = Object.entries(median.received).map(([type, size]) => `${type} ${(size / 1000).toFixed(0)} kB`).join(", ");
    const what = path ? "messages of the first conversation" : "name of the first conversation";
    console.log(
      `start on a phone: ${what} after ${median.time.toFixed(0)} ms (${own.map(({ time }) => time.toFixed(0)).join(", ")}), ${(median.bytes / 1000).toFixed(0)} kB received (${parts})`,
    );
  }
}

const state = await signedIn();
if (options.only.includes("scroll")) await scroll(state);
if (options.only.includes("deep") && options.deepSeconds) await deep(state);
if (options.only.includes("start")) await start(state);
await browser.close();
