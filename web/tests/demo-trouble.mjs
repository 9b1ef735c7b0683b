// The demo when something is refused, lost or unavailable: a token, a subscription, an acknowledgement, the server at the start, the
// browser's storage, the target of an address.
import assert from "node:assert/strict";

import { check, complained, demo, eventually, open, openIn, run, send, stored, tokenOf, url } from "./harness.mjs";
import { act, article, box, choose, isActive, list, log, row, status, undo, write } from "./pages.mjs";

const AT_BOB = "#/c/p_alice_bob";
const GRAPHQL = "**/graphql";
const asks = (route, what) => route.request().postData()?.includes(what);
const signInAs = (page, name) => page.getByRole("button", { name: `Sign in as ${name}` }).click();

async function signOut(page) {
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
}

check("a token refused before it expires is replaced", async () => {
  let revoked; // The socket's first token.
  let sockets = [];
  const prepare = (context) =>
    context.routeWebSocket(GRAPHQL, (socket) => {
      const server = socket.connectToServer();
      socket.onMessage((message) => {
        const { type, payload } = JSON.parse(message);
        if (type === "connection_init" && payload.authorization === revoked) return socket.close({ code: 4403, reason: "Forbidden" });
        if (type === "connection_init") sockets.push([socket, payload.authorization]);
        server.send(message);
      });
    });
  const page = await demo("alice", { path: AT_BOB, prepare });
  await eventually(() => assert.equal(sockets.length, 1));
  const [[socket, token]] = sockets;
  revoked = token;
  await socket.close({ code: 4403, reason: "Forbidden" });
  await eventually(() => assert.equal(sockets.length, 2));
  await send("bob", "alice", "you are back");
  await article(page, "you are back").waitFor();
  await page.context().close();
});

check("a socket closed with a final code is opened again and misses nothing", async () => {
  const sockets = [];
  const prepare = (context) => context.routeWebSocket(GRAPHQL, (socket) => (socket.connectToServer(), sockets.push(socket)));
  const page = await demo("alice", { path: AT_BOB, prepare });
  await box(page).waitFor();
  await eventually(() => assert.equal(sockets.length, 1));
  await sockets[0].close({ code: 1011, reason: "Internal error" });
  await send("bob", "alice", "said while nobody listened");
  await eventually(() => assert.equal(sockets.length, 2));
  await send("bob", "alice", "said after that");
  await article(page, "said while nobody listened").waitFor();
  await article(page, "said after that").waitFor();
  assert.equal(await page.getByRole("button", { name: "Sign in as Alice Archer" }).count(), 0);
  await page.context().close();
});

check("a page that is displayed again connects at once", async () => {
  const sockets = [];
  const prepare = (context) => context.routeWebSocket(GRAPHQL, (socket) => (socket.connectToServer(), sockets.push(socket)));
  const page = await demo("alice", { path: AT_BOB, prepare });
  await isActive(page);
  await sockets[0].close({ code: 1012, reason: "retry in 3600000 ms" });
  await page.locator("[data-connection='Resuming']").waitFor();
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await isActive(page);
  await page.context().close();
});

check("messages that the server fails to load can be loaded again", async () => {
  let fails = true;
  const prepare = (context) =>
    context.route(GRAPHQL, (route) => {
      if (!fails || !asks(route, "query Messages(")) return route.continue();
      return route.fulfill({ json: { data: null, errors: [{ message: "Internal error", extensions: { code: "INTERNAL", retryable: false } }] } });
    });
  const page = await demo("alice", { path: AT_BOB, prepare });
  const alert = page.getByRole("alert").filter({ hasText: "The messages didn't load." });
  await alert.waitFor();
  fails = false;
  await alert.getByRole("button", { name: "Try again" }).click();
  await log(page).getByRole("article").first().waitFor();
  assert.equal(await alert.count(), 0);
  await page.context().close();
});

const HOUR_MS = 3_600_000;
/** Moves the clock of a device. */
const withClock = (ahead) => (context) =>
  context.addInitScript((ms) => {
    const Real = Date;
    const now = () => Real.now() + ms;
    globalThis.Date = class extends Real {
      constructor(...given) {
        super(...(given.length ? given : [now()]));
      }
      static now = now;
    };
  }, ahead);

check("on a device whose clock is ahead, one's own new message can be recalled", async () => {
  const page = await demo("alice", { path: AT_BOB, prepare: withClock(2 * HOUR_MS) });
  await isActive(page);
  await write(page, "too early");
  await eventually(async () => assert.notEqual(await status(page, "too early"), "pending"));
  await act(page, "too early", "Recall");
  await page.getByRole("alertdialog").waitFor();
  await page.context().close();
});

check("on a device whose clock is behind, a conversation is muted for an hour", async () => {
  const page = await demo("alice", { prepare: withClock(-2 * HOUR_MS) });
  await isActive(page);
  await choose(page, "Carol Cook", "Mute for an hour");
  await page.getByText("Carol Cook muted for an hour").waitFor();
  await undo(page);
  await page.context().close();
});

check("a subscription that the server could not start is started a little later", async () => {
  let refused = 0;
  const prepare = (context) =>
    context.routeWebSocket(GRAPHQL, (socket) => {
      const server = socket.connectToServer();
      socket.onMessage((message) => {
        const { id, type } = JSON.parse(message);
        if (type !== "subscribe" || refused === 4) return server.send(message);
        refused += 1;
        const payload = [{ message: "Later.", extensions: { code: "UNAVAILABLE", retryable: true, retryAfterMs: 50 } }];
        socket.send(JSON.stringify({ id, type: "error", payload }));
      });
    });
  const page = await demo("alice", { path: AT_BOB, prepare });
  await log(page).getByRole("article").first().waitFor(); // The message must not be in the history.
  await send("bob", "alice", "said between two tries");
  await article(page, "said between two tries").waitFor();
  await eventually(() => assert.equal(refused, 4));
  await page.context().close();
});

check("the list stays up to date after a lost acknowledgement", async () => {
  const page = await demo("alice");
  await isActive(page);
  let lost = 0;
  await page.context().route(GRAPHQL, (route) => (asks(route, "AckDelivered") && (lost += 1) === 1 ? route.abort("connectionreset") : route.fallback()));
  await send("bob", "alice", "in the list");
  await row(page, "Bob Baker").getByText("in the list").waitFor();
  await eventually(() => assert.ok(lost > 1));
  await page.context().close();
});

check("a message waits without a valid token, and is sent in its place after signing in again", async () => {
  const page = await demo("alice", { path: AT_BOB });
  await box(page).waitFor();
  const errors = [{ message: "Revoked.", extensions: { code: "UNAUTHENTICATED", retryable: false } }];
  await page.context().route("**/dev/sign-in", (route) => route.fulfill({ status: 401, json: {} }));
  await page.context().route(GRAPHQL, (route) => (asks(route, "sendMessage") ? route.fulfill({ json: { data: null, errors } }) : route.fallback()));
  await write(page, "before signing out");
  await page.getByText("You have been signed out.").waitFor();
  await page.context().unrouteAll();
  await signInAs(page, "Alice Archer");
  await box(page).waitFor();
  await write(page, "after signing in");
  const texts = async () => (await stored("alice", "p_alice_bob", 2)).map(([, text]) => text);
  await eventually(async () => assert.deepEqual(await texts(), ["before signing out", "after signing in"]));
  await page.context().close();
});

check("a page opened without the server shows everything later, with messages written meanwhile", async () => {
  let away = true;
  const prepare = async (context) => {
    await context.route(GRAPHQL, (route) => (away && route.request().method() === "POST" ? route.abort("connectionrefused") : route.fallback()));
    await context.routeWebSocket(GRAPHQL, (socket) => (away ? socket.close({ code: 1001 }) : socket.connectToServer()));
  };
  const page = await demo("alice", { path: AT_BOB, prepare });
  await write(page, "without a server");
  assert.equal(await status(page, "without a server"), "pending");
  away = false;
  await article(page, "after signing in").waitFor();
  await eventually(async () => assert.match(await status(page, "without a server"), /sent|delivered|read/));
  await page.getByRole("heading", { name: "Alice Archer" }).waitFor();
  await page.context().close();
});

check("a token of the address is tried again after a failure, and refused with a reason", async () => {
  const prepare = (context) => context.route(GRAPHQL, (route) => route.abort("connectionrefused"));
  const page = await open(`/demo#token=${tokenOf("erin")}`, { name: "erin", prepare });
  await page.getByRole("alert").getByText("The server did not answer. Try again.").waitFor();
  await page.context().unrouteAll();
  await page.reload();
  await row(page, "Carol Cook").waitFor();
  assert.ok(!page.url().includes("token"));
  await page.context().close();
  const refused = await open("/demo#token=nonsense", { name: "nonsense" });
  await refused.getByRole("alert").getByText("The token was refused.").waitFor();
  assert.ok(!refused.url().includes("token"));
  await refused.context().close();
});

check("a token of another user in the address asks before it replaces the sign-in", async () => {
  const page = await demo("alice", { path: AT_BOB });
  await box(page).waitFor();
  const follow = async () => {
    await page.goto("about:blank");
    await page.goto(`${url}/demo#token=${tokenOf("erin")}`);
  };
  const question = page.getByRole("alertdialog", { name: "Sign in as erin?" });
  for (const answer of [() => page.keyboard.press("Escape"), () => question.getByRole("button", { name: "Cancel" }).click()]) {
    await follow();
    await question.getByText("You are signed in as alice").waitFor();
    assert.ok(!page.url().includes("token"));
    await answer();
    await page.getByRole("heading", { name: "Alice Archer" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Alice Archer" }).waitFor();
  }
  await follow();
  await question.getByRole("button", { name: "Sign in" }).click();
  await row(page, "Carol Cook").waitFor();
  await page.goto("about:blank");
  await page.goto(`${url}/demo#token=${tokenOf("erin")}`);
  await row(page, "Carol Cook").waitFor();
  assert.equal(await question.count(), 0);
  await page.context().close();
});

check("a failed edit stays in the composer", async () => {
  const page = await demo("alice", { path: AT_BOB });
  await write(page, "to be edited");
  await eventually(async () => assert.match(await status(page, "to be edited"), /sent|delivered|read/));
  await act(page, "to be edited", "Edit");
  await box(page).fill("written at length");
  await page.context().route(GRAPHQL, (route) => route.abort("connectionreset"));
  await box(page).press("Enter");
  await page.getByRole("alert").waitFor();
  assert.equal(await box(page).inputValue(), "written at length");
  await page.context().unrouteAll();
  await box(page).press("Enter");
  await article(page, "written at length").waitFor();
  await eventually(async () => assert.equal(await box(page).inputValue(), ""));
  await page.context().close();
});

check("an address of other people's conversation sends no message, and a broken one breaks nothing", async () => {
  for (const path of ["#/c/p_alice_carol", "#/c/p_bob_alice", "#/c/p_alice_bob~nowhere", "#/c/%"]) {
    const page = await demo("bob", { path });
    await list(page).waitFor();
    await page.getByText("There is no such conversation").waitFor();
    assert.equal(await box(page).count(), 0, path);
    await page.context().close();
  }
});

check("writing works without storage, or with full storage", async () => {
  const denied = () => Object.defineProperty(window, "localStorage", { get() { throw new DOMException("denied", "SecurityError"); } });
  const full = () => { Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); }; };
  for (const [name, trouble] of Object.entries({ denied, full })) {
    const page = await open(`/demo${AT_BOB}`, { name, prepare: (context) => context.addInitScript(trouble) });
    await signInAs(page, "Alice Archer");
    await write(page, `storage ${name}`);
    await eventually(async () => assert.equal((await stored("alice", "p_alice_bob", 1))[0][1], `storage ${name}`));
    await eventually(async () => assert.match(await status(page, `storage ${name}`), /sent|delivered|read/));
    await page.context().close();
  }
});

check("signing out in one tab keeps a later sign-in of another tab", async () => {
  const first = await open("/demo", { name: "first tab" });
  await signInAs(first, "Alice Archer");
  await row(first, "Bob Baker").waitFor();
  const second = await openIn(first.context(), "/demo", "second tab");
  await row(second, "Bob Baker").waitFor();
  await signOut(second);
  await signInAs(second, "Bob Baker");
  await row(second, "Alice Archer").waitFor();
  await signOut(first);
  await second.reload();
  await second.getByRole("heading", { name: "Bob Baker" }).waitFor();
  await first.context().close();
});

check("right-to-left text is displayed right to left", async () => {
  const page = await demo("alice", { path: AT_BOB });
  await write(page, "שלום, alice!");
  // The waiting message becomes a sent message meanwhile, which is another element.
  await eventually(async () => {
    const directions = await article(page, "שלום").locator(".text").evaluateAll((texts) => texts.map((text) => getComputedStyle(text).direction));
    assert.deepEqual(directions, ["rtl"]);
  });
  await page.context().close();
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
