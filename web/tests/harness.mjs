// What the programs of this folder share: `node demo-two-people.mjs http://127.0.0.1:8000 FOLDER`, against a Confab in development.
// Each check prints one line of JSON, {"check", "ok", "ms"[, "error"]}; if one fails, FOLDER gets a screenshot of each page.
import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { chromium } from "playwright-core";

export const url = process.argv[2] ?? "http://127.0.0.1:8000";
const folder = process.argv[3] ?? ".";
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";

export const PATIENCE = 30_000; // ms that a check waits for something that should appear at once, on a busy machine
const WIDE = { width: 1200, height: 800 };
export const PHONE = { width: 390, height: 844 };

const checks = [];
const pages = new Map(); // page -> its name
const complaints = []; // errors reported by browsers
let browser;

/** A check: a sentence about behaviour. Checks run in order, each in the state that the previous ones left. */
export function check(sentence, body) {
  checks.push({ sentence, body });
}

/** Runs and reports all checks, then closes the browser. */
export async function run(setUp = async () => {}) {
  browser = await chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  let broken = null;
  try {
    await setUp();
  } catch (error) {
    broken = error;
    await photograph("set-up");
  }
  for (const { sentence, body } of checks) {
    const began = Date.now();
    let error = broken;
    try {
      if (!error) await within(body(), 4 * PATIENCE);
    } catch (thrown) {
      error = thrown;
      await photograph(sentence);
    }
    const told = error && String(error.stack ?? error).replace(/\u001b\[\d+m/g, "");
    console.log(JSON.stringify({ check: sentence, ok: !error, ms: Date.now() - began, ...(error && { error: told }) }));
  }
  await browser.close();
}

/**
 * A page in its own browser profile. options: Playwright's for a context; `name`: for screenshots and errors; `prepare`: called with
 * the context before there is a page.
 */
export async function open(path, { name = path, prepare, ...options } = {}) {
  const context = await browser.newContext({ viewport: WIDE, locale: "en-GB", ...options });
  context.setDefaultTimeout(PATIENCE);
  await prepare?.(context);
  return openIn(context, path, name);
}

/** Another page in the same profile. */
export async function openIn(context, path, name = path) {
  const page = await context.newPage();
  pages.set(page, name);
  page.on("close", () => pages.delete(page));
  page.on("pageerror", (error) => complaints.push(`${name}: ${error.message}`));
  page.on("console", (message) => {
    // The browser itself reports a missing network, which tests cause.
    if (message.type() === "error" && !/net::ERR_|WebSocket connection|Failed to load resource/.test(message.text())) {
      complaints.push(`${name}: ${message.text()}`);
    }
  });
  await page.goto(new URL(path, url).href);
  return page;
}

/** The demo, signed in as a person. */
export function demo(user, options = {}) {
  const { device, path = "", ...rest } = options;
  const query = new URLSearchParams({ as: user, ...(device && { device }) });
  return open(`/demo?${query}${path}`, { name: device ? `${user}-${device}` : user, ...rest });
}

/** The console output of all pages since the last call: errors, and scripts and styles refused by the policy. */
export function complained() {
  return complaints.splice(0);
}

/** Calls the API as a person, without the browser. */
export async function ask(user, query, variables = {}) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${await token(user)}` };
  const response = await fetch(`${url}/graphql`, { method: "POST", headers, body: JSON.stringify({ query, variables }) });
  const { data, errors } = await response.json();
  // A busy machine refuses some requests before it executes anything.
  if (errors?.every(({ extensions }) => extensions.retryable)) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    return ask(user, query, variables);
  }
  assert.equal(errors, undefined, JSON.stringify(errors));
  return data;
}

const tokens = new Map();

/** A token for any user id, as the tests' Confab accepts it: the claim `uid` is the user. Its first use creates the user. */
export function tokenOf(user, claims = {}) {
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const signed = `${encode({ alg: "HS256", typ: "JWT" })}.${encode({ sub: "an account", uid: user, exp: Math.floor(Date.now() / 1000) + 3600, ...claims })}`;
  const made = `${signed}.${createHmac("sha256", "confab-development-secret-known-to-everybody").update(signed).digest("base64url")}`;
  tokens.set(user, made);
  return made;
}

async function token(user) {
  if (!tokens.has(user)) {
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${url}/dev/sign-in`, { method: "POST", headers, body: JSON.stringify({ userId: user }) });
    tokens.set(user, (await response.json()).token);
  }
  return tokens.get(user);
}

/** Sends a message without the browser; returns it. */
export async function send(user, to, content, more = {}) {
  const input = { ...(to.includes("_") || to.startsWith("g") ? { conversationId: to } : { toUserId: to }), content, idempotencyKey: randomUUID(), ...more };
  const query = "mutation($input: SendMessageInput!) { sendMessage(input: $input) { message { id seq conversationId } } }";
  return (await ask(user, query, { input })).sendMessage.message;
}

/** The last stored messages of a conversation: [seq, content]. */
export async function stored(user, conversationId, last = 10) {
  const query = "query($id: ID!, $last: Int) { messages(conversationId: $id, last: $last) { edges { node { seq content } } } }";
  const { messages } = await ask(user, query, { id: conversationId, last });
  return messages.edges.map(({ node }) => [node.seq, node.content]);
}

/** Waits until the condition holds; throws the last reason why it does not. */
export async function eventually(holds, patience = PATIENCE) {
  const until = Date.now() + patience;
  for (;;) {
    try {
      return await holds();
    } catch (error) {
      if (Date.now() > until) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Checks that axe has no serious or critical finding on the displayed page, or in a part of it, except those of some rules. */
export async function isAccessible(page, { within: part, except = [] } = {}) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const rules = Object.fromEntries(except.map((rule) => [rule, { enabled: false }]));
  const { violations } = await page.evaluate(
    ([selector, rules]) => window.axe.run(selector ?? document, { resultTypes: ["violations"], rules }),
    [part, rules],
  );
  const found = violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, help, nodes }) => `${id}: ${help}\n${nodes.slice(0, 5).map(({ html, any }) => `  ${html.slice(0, 200)} ${any[0]?.message ?? ""}`).join("\n")}`);
  assert.equal(found.length, 0, found.join("\n"));
}

/** Checks that the page does not overflow the screen. */
export async function fitsItsWidth(page) {
  const [width, room] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert.ok(width <= room, `${width} px wide on a screen of ${room}`);
}

function within(promise, ms) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${ms / 1000} s`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function photograph(sentence) {
  const file = sentence.replace(/[^a-z0-9]+/gi, "-").slice(0, 60);
  for (const [page, name] of pages) {
    await page.screenshot({ path: join(folder, `${file}--${name.replace(/[^a-z0-9]+/gi, "-")}.png`) }).catch(() => {});
  }
}
