// The guide's part of pushes that runs in a page, against a real server, and its service worker: both in a browser made of a few
// objects. web/tests/demo-push.mjs runs the worker in Chromium.
import assert from "node:assert/strict";
import { createECDH } from "node:crypto";
import { thisDevice } from "../docs/clients/device.mjs";
import { WebPush } from "../docs/clients/push.mjs";
import { Person, done, until } from "./scenario.mjs";

const define = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
const stored = new Map();
const disk = { getItem: (key) => stored.get(key) ?? null, setItem: (key, value) => stored.set(key, value), removeItem: (key) => stored.delete(key) };

// --- the browser

const p256dh = createECDH("prime256v1").generateKeys().toString("base64url");
let subscription = null;
let addresses = 0;
const pushManager = {
  getSubscription: async () => subscription,
  subscribe: async ({ applicationServerKey }) => {
    assert.equal(subscription, null);
    assert.match(applicationServerKey, /^[A-Za-z0-9_-]{87}$/);
    const endpoint = `https://push.example.org/${addresses += 1}`;
    return (subscription = {
      endpoint,
      options: { applicationServerKey: Buffer.from(applicationServerKey, "base64url") },
      toJSON: () => ({ endpoint, keys: { p256dh, auth: "AAAAAAAAAAAAAAAAAAAAAA" } }),
      unsubscribe: async () => { subscription = null; return true; },
    });
  },
};
const toPage = new EventTarget();
// The page is outside the scope of the worker, which becomes active a moment after it was registered.
toPage.ready = new Promise(() => {});
let registration;
let outcome = "activating";
toPage.register = async (address) => {
  assert.equal(address, "/static/push-worker.js");
  if (registration) return registration;
  const installing = Object.assign(new EventTarget(), { state: "installing" });
  setTimeout(() => {
    installing.state = outcome;
    Object.assign(registration, { installing: null, active: outcome === "activating" ? installing : null });
    installing.dispatchEvent(new Event("statechange"));
  }, 5);
  return (registration = { installing, waiting: null, active: null, pushManager });
};
toPage.getRegistration = async () => registration;
define("navigator", { serviceWorker: toPage, language: "de-CH", setAppBadge: async (badge) => { shown.badge = badge; } });
define("isSecureContext", true);
define("PushManager", class {});
define("Notification", class { static permission = "granted"; static requestPermission = async () => Notification.permission; });
define("localStorage", disk);

// --- the page

const ann = new Person("ann");
const device = thisDevice(disk);
const opened = [];
const push = new WebPush({
  ask: (query, variables) => ann.ask(query, variables), device, worker: "/static/push-worker.js",
  isLookedAt: (conversationId) => conversationId === "p_open", open: (conversationId) => opened.push(conversationId),
});
const platform = async () => {
  const { devices } = await ann.ask("{ devices { id type pushPlatform } }");
  return devices.find(({ id }) => id === device.deviceId)?.pushPlatform;
};

assert.equal(push.isSupported, true);
await push.resume();
assert.equal(addresses, 0);
Notification.permission = "denied";
assert.equal(await push.switchOn(), "denied");
Notification.permission = "granted";
await push.switchOff();
outcome = "redundant";
await assert.rejects(push.switchOn(), /could not be installed/);
await assert.rejects(push.switchOn(), /could not be installed/);
const { setTimeout: later } = globalThis;
globalThis.setTimeout = (act, ms, ...given) => later(act, ms === 10_000 ? 5 : ms, ...given);
registration.waiting = Object.assign(new EventTarget(), { state: "installed" });
await assert.rejects(push.switchOn(), /did not become active/);
await push.switchOff();
globalThis.setTimeout = later;
outcome = "activating";
done("a service worker that does not become active is an error");

registration = undefined;
assert.equal(await push.switchOn(), "on");
assert.equal(await platform(), "WEB_PUSH");
done("a browser is registered for pushes");

await push.resume();
assert.equal(addresses, 1);
subscription = null;
await push.resume();
subscription.options.applicationServerKey = Buffer.from("another key");
await push.resume();
assert.equal(addresses, 3);
// The server has forgotten the address, as after 404 or 410 of the push service.
await ann.ask(`mutation($id: ID!) { registerDevice(input: { id: $id, type: WEB, pushToken: "" }) { id } }`, { id: device.deviceId });
await push.resume();
assert.equal(addresses, 4);
assert.equal(await platform(), "WEB_PUSH");
done("a lost subscription is made again when the page is opened");

await push.switchOff();
assert.deepEqual([subscription, await platform()], [null, null]);
await push.resume();
assert.equal(subscription, null);
done("switching off removes the push");

// --- the service worker

const shown = new Map();
const worker = new EventTarget();
const page = {
  focus: async () => page,
  postMessage: (data, ports = []) => toPage.dispatchEvent(Object.assign(new Event("message"), { data, ports })),
};
const windows = [page];
const elsewhere = [];
Object.assign(worker, {
  navigator,
  clients: { matchAll: async () => windows, openWindow: async (address) => elsewhere.push(address) },
  registration: {
    pushManager,
    getNotifications: async ({ tag }) => [...shown.values()].filter((each) => each.tag === tag),
    showNotification: async (title, options) => shown.set(options.tag, { title, ...options, close: () => shown.delete(options.tag) }),
  },
});
define("self", worker);
await import("../docs/clients/push-worker.js");
async function happens(type, fields) {
  let ended;
  worker.dispatchEvent(Object.assign(new Event(type), fields, { waitUntil: (promise) => { ended = promise; } }));
  await ended;
}
const deliver = (payload) => happens("push", { data: { json: () => JSON.parse(payload) } });
const text = (tag) => shown.get(tag) && `${shown.get(tag).title}: ${shown.get(tag).body}`;

await deliver('{"title": "Bob", "body": "one", "conversationId": "p_a_b", "badge": 3, "tag": "t"}');
await deliver('{"title": "Bob", "body": "two", "conversationId": "p_a_b", "badge": 4, "tag": "t"}');
await deliver('{"title": "Cat", "body": "here", "conversationId": "p_open", "badge": 4, "tag": "u"}');
assert.deepEqual([shown.size, text("t"), shown.badge], [1, "Bob: two", 4]);
const notification = shown.get("t");
await happens("notificationclick", { notification });
assert.deepEqual([opened, shown.size], [["p_a_b"], 0]);
await deliver('{"title": "Bob", "body": "three", "tag": "t"}');
await deliver('{"title": "", "body": "", "conversationId": "p_a_b", "badge": 0, "tag": "t", "quiet": true}');
assert.deepEqual([shown.size, shown.badge], [0, 0]);
for (const malformed of ["", "null", "7", "{", '{"title": [], "badge": {}, "tag": 4}']) {
  await deliver(malformed);
  assert.equal(text("confab"), "Confab: You have new messages.");
  shown.clear();
}
windows.length = 0;
await happens("notificationclick", { notification });
assert.deepEqual(elsewhere, ["/#/c/p_a_b"]);
done("the service worker shows, replaces and removes notifications");

windows.push(page);
await push.switchOn();
const { endpoint, options, unsubscribe } = subscription;
await unsubscribe();
await happens("pushsubscriptionchange", { oldSubscription: { endpoint, options: { applicationServerKey: options.applicationServerKey.toString("base64url") } }, newSubscription: null });
await until("the new address", async () => stored.get("confab.push") === subscription.endpoint && subscription.endpoint !== endpoint);
assert.equal(await platform(), "WEB_PUSH");
done("a subscription that the browser has ended is replaced");
process.exit(0);
