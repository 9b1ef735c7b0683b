// The demo's notifications: its service worker, that of the client guide, and the dialog. Chromium has no push service here: its
// subscription is replaced by one of this program, and DevTools deliver pushes to the workers. A Chromium without a window sometimes
// closes notifications by itself, so the workers see a list of this program instead of Chromium's.
import assert from "node:assert/strict";
import { createECDH } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

import { ask, check, complained, demo, eventually, isAccessible, open, PATIENCE, run } from "./harness.mjs";
import { isActive, notificationsDialog as dialog, openNotifications as openDialog, openSession } from "./pages.mjs";

const WITH_BOB = "p_alice_bob";
const BOB = { title: "Bob Baker", body: "Are you there?", conversationId: WITH_BOB, badge: 3, tag: "bob" };
const CAROL = { title: "Carol Cook", body: "Socks!", conversationId: "p_alice_carol", badge: 4, tag: "carol" };
const GENERAL = [["Confab", "You have new messages."]];

const GUIDE = new Map([
  ["/", ["text/html", "<!doctype html><title>Chat</title>"]],
  ["/push-worker.js", ["text/javascript", readFileSync(new URL("../../docs/clients/push-worker.js", import.meta.url))]],
]);

/** A page of the client guide's worker, and the push service of Chromium's subscriptions: `status` is its answer. */
const served = { pushes: [], status: 201 };
const server = createServer((request, response) => {
  if (request.method === "POST") {
    served.pushes.push(request.url);
    return response.writeHead(served.status).end();
  }
  const [type, text] = GUIDE.get(request.url) ?? ["text/plain", ""];
  response.writeHead(text ? 200 : 404, { "content-type": type }).end(text);
}).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const origin = `http://127.0.0.1:${server.address().port}`;

/** A page with a service worker that is active, and gets pushes: both workers pass the same checks. */
async function withWorker(page, script, scope) {
  const session = await page.context().newCDPSession(page);
  let id;
  session.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => {
    id = registrations.find(({ scopeURL }) => new URL(scopeURL).pathname === scope)?.registrationId ?? id;
  });
  await session.send("ServiceWorker.enable");
  await page.evaluate(([script, scope]) => navigator.serviceWorker.register(script, { scope }), [script, scope]);
  await page.waitForFunction(async (scope) => (await navigator.serviceWorker.getRegistration(scope)).active?.state === "activated", scope);
  await eventually(() => assert.ok(id !== undefined));
  const worker = page.context().serviceWorkers().find((each) => new URL(each.url()).pathname === script);
  await worker.evaluate(() => {
    self.badges = [];
    self.opened = [];
    self.shown = new Map(); // tag -> notification
    self.navigator.setAppBadge = async (badge) => void self.badges.push(badge);
    self.clients.openWindow = async (address) => void self.opened.push(address);
    const { registration } = self;
    const show = registration.showNotification.bind(registration);
    registration.showNotification = async (title, options) => {
      await show(title, options); // It refuses wrong options.
      const { tag, body, data } = options;
      const notification = { title, body, data, tag, close: () => self.shown.get(tag) === notification && self.shown.delete(tag) };
      self.shown.set(tag, notification);
    };
    registration.getNotifications = async ({ tag } = {}) => [...self.shown.values()].filter((each) => tag === undefined || each.tag === tag);
  });
  const shown = () => worker.evaluate(() => [...self.shown.values()].map(({ title, body }) => [title, body]).sort());
  return {
    page,
    worker,
    push: (data) => session.send("ServiceWorker.deliverPushMessage", { origin: new URL(page.url()).origin, registrationId: id, data: typeof data === "string" ? data : JSON.stringify(data) }),
    shows: (wanted) => eventually(async () => assert.deepEqual(await shown(), wanted)),
    badges: () => worker.evaluate(() => self.badges.splice(0)),
    clear: () => worker.evaluate(() => self.shown.clear()),
    /** Clicks on the only notification. */
    click: () =>
      worker.evaluate(() => {
        const [notification] = self.shown.values();
        self.dispatchEvent(Object.assign(new ExtendableEvent("notificationclick"), { notification }));
      }),
  };
}

let alice, guide;
const both = async (act) => {
  for (const each of [alice, guide]) await act(each);
};
const allowed = (context) => context.grantPermissions(["notifications"]);

check("a push is shown as a notification, and the next one of its conversation replaces it", async () => {
  const page = await demo("alice", { prepare: allowed });
  await isActive(page);
  alice = await withWorker(page, "/demo/sw.js", "/demo/");
  guide = await withWorker(await open(`${origin}/`, { name: "guide", prepare: allowed }), "/push-worker.js", "/");
  await both(async ({ push, shows, badges }) => {
    await push(BOB);
    await shows([["Bob Baker", "Are you there?"]]);
    await push({ ...BOB, body: "Hello?", badge: 4 });
    await shows([["Bob Baker", "Hello?"]]);
    await push(CAROL);
    await shows([["Bob Baker", "Hello?"], ["Carol Cook", "Socks!"]]);
    assert.deepEqual(await badges(), [3, 4, 4]);
  });
});

check("a quiet push removes the notification of its conversation, and sets the number", async () => {
  await both(async ({ push, shows, badges }) => {
    await push({ title: "", body: "", conversationId: WITH_BOB, badge: 1, tag: "bob", quiet: true });
    await shows([["Carol Cook", "Socks!"]]);
    await push({ title: "", body: "", conversationId: CAROL.conversationId, badge: 0, tag: "carol", quiet: true });
    await shows([]);
    await push({ conversationId: WITH_BOB, badge: 0, tag: "bob", quiet: true });
    await eventually(async () => assert.deepEqual((await badges()).slice(-1), [0]));
    await shows([]);
  });
});

check("a push that cannot be read shows a general notification", async () => {
  await both(async ({ push, shows, badges, clear }) => {
    await badges();
    for (const malformed of ["", "no JSON", "null", "[1]", '{"title": 5, "tag": {}, "badge": "many", "conversationId": []}', "{}"]) {
      await push(malformed);
      await shows(GENERAL);
      await clear();
      await shows([]);
    }
    assert.deepEqual(await badges(), []);
  });
});

check("a push about the conversation on the screen shows nothing; about another one it does", async () => {
  const { page, worker, push, shows, badges, clear } = alice;
  // On a busy machine, the page may take longer than half a second to answer what is on the screen.
  await worker.evaluate((longest) => {
    const later = self.setTimeout.bind(self);
    self.setTimeout = (run) => later(run, longest);
  }, PATIENCE);
  await openSession(page, "Bob Baker");
  await page.bringToFront();
  await push(BOB);
  await eventually(async () => assert.deepEqual(await badges(), [3]));
  await push(CAROL);
  await shows([["Carol Cook", "Socks!"]]);
  await clear();
});

check("a click on a notification opens its conversation in the open page", async () => {
  const { page, push, shows, click } = alice;
  await push(CAROL);
  await shows([["Carol Cook", "Socks!"]]);
  await click();
  await page.getByRole("heading", { name: "Carol Cook", exact: true }).waitFor();
  await shows([]);
});

check("without an open page, a click on a notification opens one with the conversation", async () => {
  await both(async ({ page, worker, push, shows, click }) => {
    await page.goto("about:blank");
    await eventually(async () => assert.equal(await worker.evaluate(async () => (await self.clients.matchAll({ includeUncontrolled: true })).length), 0));
    await push(BOB);
    await shows([["Bob Baker", "Are you there?"]]);
    await click();
    const address = page === alice.page ? "/demo#/c/p_alice_bob" : "/#/c/p_alice_bob";
    await eventually(async () => assert.deepEqual(await worker.evaluate(() => self.opened), [address]));
    await page.context().close();
  });
});

// --- the dialog

const browserKeys = createECDH("prime256v1");
const p256dh = browserKeys.generateKeys().toString("base64url");
const auth = Buffer.alloc(16, 7).toString("base64url");

/** Replaces the push service of a browser profile: subscriptions are in localStorage, and have addresses of this program. */
async function withPushService(context) {
  await allowed(context);
  await context.addInitScript(
    ({ origin, p256dh, auth }) => {
      const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0)).buffer;
      const held = () => {
        const { endpoint, key } = JSON.parse(localStorage.getItem("held") ?? "{}");
        if (!endpoint) return null;
        const unsubscribe = async () => (localStorage.removeItem("held"), true);
        return { endpoint, options: { applicationServerKey: bytes(key) }, toJSON: () => ({ endpoint, keys: { p256dh, auth } }), unsubscribe };
      };
      PushManager.prototype.getSubscription = async () => held();
      PushManager.prototype.subscribe = async ({ applicationServerKey: key }) => {
        if (held()) throw new DOMException("There is one with another key", "InvalidStateError");
        const number = Number(localStorage.getItem("addresses")) + 1;
        localStorage.setItem("addresses", number);
        localStorage.setItem("held", JSON.stringify({ endpoint: `${origin}/push/${number}`, key }));
        return held();
      };
    },
    { origin, p256dh, auth },
  );
}

const here = (page) => dialog(page).getByRole("region", { name: "This browser" });
const button = (page, name) => here(page).getByRole("button", { name, exact: true });
const addresses = (page) => page.evaluate(() => Number(localStorage.getItem("addresses")));
const held = (page) => page.evaluate(() => JSON.parse(localStorage.getItem("held"))?.endpoint ?? null);
const platform = async (page, user = "erin") => {
  const id = await page.evaluate(() => localStorage.getItem("confab.browser.device"));
  return (await ask(user, "{ devices { id pushPlatform } }")).devices.find((each) => each.id === id)?.pushPlatform;
};

/** Sends a test from the dialog, and waits for what it says. */
async function sendTest(page, words) {
  await button(page, "Send a test").click();
  await here(page).getByText(words).waitFor();
}

let erin;

check("notifications are off until they are switched on, and then the server has the address", async () => {
  erin = await demo("erin", { prepare: withPushService });
  await isActive(erin);
  await openDialog(erin);
  await here(erin).getByText("Off in this browser").waitFor();
  assert.equal(await addresses(erin), 0);
  await isAccessible(erin);
  await button(erin, "Switch on").click();
  await here(erin).getByText("On in this browser").waitFor();
  assert.equal(await platform(erin), "WEB_PUSH");
  await isAccessible(erin);
});

check("a test says what became of it", async () => {
  await sendTest(erin, "Sent. The notification appears in a moment.");
  assert.deepEqual(served.pushes.splice(0), ["/push/1"]);
  served.status = 400;
  await sendTest(erin, /^The push service refused it/);
  served.status = 410;
  await sendTest(erin, /^The push service does not know this browser any more/);
  served.status = 201;
});

check("an address that the push service has given up is replaced when the page is opened", async () => {
  await eventually(async () => assert.equal(await platform(erin), null));
  await erin.reload();
  await eventually(async () => assert.equal(await platform(erin), "WEB_PUSH"));
  assert.equal(await addresses(erin), 2);
  await openDialog(erin);
  served.pushes.splice(0);
  await sendTest(erin, /^Sent/);
  assert.deepEqual(served.pushes.splice(0), ["/push/2"]);
});

check("a subscription that was lost, or has another key of the server, is made again", async () => {
  const changes = [
    () => localStorage.removeItem("held"),
    () => localStorage.setItem("held", JSON.stringify({ ...JSON.parse(localStorage.getItem("held")), key: "AAAA" })),
  ];
  for (const [number, change] of changes.entries()) {
    await erin.evaluate(change);
    await erin.reload();
    await eventually(async () => assert.equal(await held(erin), `${origin}/push/${number + 3}`));
    await openDialog(erin);
    await here(erin).getByText("On in this browser").waitFor();
    served.pushes.splice(0);
    await sendTest(erin, /^Sent/);
    assert.deepEqual(served.pushes.splice(0), [`/push/${number + 3}`]);
  }
});

check("a subscription that the browser ends is replaced at once if a page is open", async () => {
  await erin.evaluate(() => localStorage.removeItem("held"));
  const [worker] = erin.context().serviceWorkers();
  await worker.evaluate(() => self.dispatchEvent(new ExtendableEvent("pushsubscriptionchange")));
  await eventually(async () => assert.equal(await held(erin), `${origin}/push/5`));
  served.pushes.splice(0);
  await eventually(async () => {
    await sendTest(erin, /^Sent/);
    assert.deepEqual(served.pushes.splice(0), ["/push/5"]);
  });
});

check("an address that is still good stays when the page is opened again", async () => {
  await erin.reload();
  await openDialog(erin);
  await here(erin).getByText("On in this browser").waitFor();
  assert.equal(await held(erin), `${origin}/push/5`);
});

check("switching off, and signing out, removes the address here and at the server", async () => {
  await button(erin, "Switch off").click();
  await here(erin).getByText("Off in this browser").waitFor();
  assert.deepEqual([await held(erin), await platform(erin)], [null, null]);
  await button(erin, "Switch on").click();
  await here(erin).getByText("On in this browser").waitFor();
  assert.equal(await platform(erin), "WEB_PUSH");
  await erin.keyboard.press("Escape");
  await erin.getByRole("button", { name: "More", exact: true }).click();
  await erin.getByRole("menuitem", { name: "Sign out" }).click();
  await erin.getByRole("heading", { name: "Confab" }).waitFor();
  assert.deepEqual([await held(erin), await platform(erin)], [null, null]);
});

check("another user who signs in ends the pushes of the one before", async () => {
  await erin.goto(new URL("/demo?as=erin", erin.url()).href);
  await openDialog(erin);
  await button(erin, "Switch on").click();
  await here(erin).getByText("On in this browser").waitFor();
  await erin.goto(new URL("/demo?as=carol", erin.url()).href);
  await isActive(erin);
  await eventually(async () => assert.equal(await held(erin), null));
  await openDialog(erin);
  await here(erin).getByText("Off in this browser").waitFor();
  await erin.context().close();
});

check("the dialog says why notifications are not possible, without a button that cannot work", async () => {
  const without = (name) => async (context) => {
    await withPushService(context);
    await context.addInitScript((name) => void delete window[name], name);
  };
  const withoutKey = async (context) => {
    await withPushService(context);
    await context.route("**/graphql", async (route) => {
      if (!route.request().postData()?.includes("query WebPush")) return route.continue();
      return route.fulfill({ json: { data: { webPushPublicKey: null, devices: [] } } });
    });
  };
  const blocked = (context) => context.addInitScript(() => Object.defineProperty(Notification, "permission", { get: () => "denied" }));
  for (const [prepare, words] of [
    [without("PushManager"), "Not supported by this browser"],
    [withoutKey, "Not offered by this server"],
    [blocked, "Blocked in this browser"],
  ]) {
    const page = await demo("dave", { prepare });
    await isActive(page);
    await openDialog(page);
    await here(page).getByText(words).waitFor();
    assert.equal(await here(page).getByRole("button").count(), 0);
    await page.context().close();
  }
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
server.close();
