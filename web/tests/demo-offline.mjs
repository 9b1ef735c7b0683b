// The demo without a network, and afterwards: nothing is lost or repeated, and everything is in order.
import assert from "node:assert/strict";

import { ask, check, complained, demo, eventually, openIn, run, send, stored } from "./harness.mjs";
import { article, box, log, row, status, write } from "./pages.mjs";

const WITH_BOB = "p_alice_bob";

let alice, context;

const shown = (page) => log(page).getByRole("article").evaluateAll((all) => all.map((each) => [Number(each.dataset.seq), each.querySelector(".text")?.textContent ?? ""]));
const banner = (page) => page.getByRole("status").filter({ hasText: "Your messages are kept" });

/** Exactly these messages are stored, each in its place, and the page displays the same. */
async function endsWith(page, texts) {
  await eventually(async () => assert.deepEqual((await stored("alice", WITH_BOB, texts.length)).map(([, text]) => text), texts));
  const all = (await stored("alice", WITH_BOB, 30)).map(([, text]) => text);
  for (const text of texts) assert.equal(all.filter((each) => each === text).length, 1, text);
  await eventually(async () => assert.deepEqual((await shown(page)).slice(-texts.length), await stored("alice", WITH_BOB, texts.length)));
}

check("messages written offline show a clock, and are stored once and in order when the network is back", async () => {
  alice = await demo("alice", { path: "#/c/p_alice_bob" });
  context = alice.context();
  await box(alice).waitFor();
  await context.setOffline(true);
  await banner(alice).waitFor();
  for (const text of ["offline one", "offline two", "offline three"]) {
    await write(alice, text);
    assert.equal(await status(alice, text), "pending");
    assert.equal(await article(alice, text).getByRole("img").getAttribute("aria-label"), "Waiting");
  }
  await context.setOffline(false);
  await endsWith(alice, ["offline one", "offline two", "offline three"]);
  await eventually(async () => assert.equal(await banner(alice).count(), 0));
  for (const text of ["offline one", "offline three"]) assert.match(await status(alice, text), /sent|delivered|read/);
});

check("changes by others appear after reconnecting", async () => {
  await context.setOffline(true);
  await banner(alice).waitFor();
  const first = await send("bob", WITH_BOB, "while you were away");
  await send("bob", WITH_BOB, "and this");
  await ask("bob", "mutation($id: ID!) { editMessage(messageId: $id, content: \"while you were out\") { id } }", { id: first.id });
  await ask("bob", 'mutation { startTyping(conversationId: "p_alice_bob") }');
  await context.setOffline(false);
  await endsWith(alice, ["while you were out", "and this"]);
});

check("a page closed with a full outbox sends it when it is opened again", async () => {
  await context.setOffline(true);
  await banner(alice).waitFor();
  await write(alice, "kept one");
  await write(alice, "kept two");
  await alice.close();
  await context.setOffline(false);
  assert.notEqual((await stored("alice", WITH_BOB, 1))[0][1], "kept two");
  alice = await openIn(context, "/demo?as=alice#/c/p_alice_bob", "alice again");
  await endsWith(alice, ["kept one", "kept two"]);
});

check("a lost answer stores nothing twice", async () => {
  let attempts = 0;
  await context.route("**/graphql", async (route) => {
    if (!route.request().postData()?.includes("sendMessage")) return route.fallback();
    attempts += 1;
    if (attempts > 1) return route.fallback();
    await route.fetch();
    await route.abort("connectionreset");
  });
  await write(alice, "said once");
  await eventually(() => assert.equal(attempts, 2));
  await endsWith(alice, ["said once"]);
  await context.unroute("**/graphql");
  assert.equal(attempts, 2);
});

check("a message refused for good is kept apart, to be sent again or discarded", async () => {
  const errors = [{ message: "Not today.", extensions: { code: "FORBIDDEN", retryable: false } }];
  await context.route("**/graphql", (route) =>
    route.request().postData()?.includes("sendMessage") ? route.fulfill({ json: { data: null, errors } }) : route.fallback(),
  );
  await write(alice, "refused");
  await eventually(async () => assert.equal(await status(alice, "refused"), "failed"));
  await article(alice, "refused").getByText("Not today.").waitFor();
  await write(alice, "refused too");
  await eventually(async () => assert.equal(await status(alice, "refused too"), "failed"));
  await article(alice, "refused too").getByRole("button", { name: "Discard" }).click();
  await context.unroute("**/graphql");
  await article(alice, "refused").getByRole("button", { name: "Try again" }).click();
  await endsWith(alice, ["refused"]);
  assert.equal(await article(alice, "refused too").count(), 0);
});

check("a page misses nothing after a sleep in which its socket died silently", async () => {
  const sockets = [];
  const dead = new Set(); // Nothing passes through these sockets any more, not even what the server has sent before.
  const prepare = (context) =>
    context.routeWebSocket("**/graphql", (socket) => {
      const server = socket.connectToServer();
      sockets.push(socket);
      socket.onMessage((message) => dead.has(socket) || server.send(message));
      server.onMessage((message) => dead.has(socket) || socket.send(message));
    });
  const page = await demo("carol", { path: "#/c/p_bob_carol", prepare });
  await row(page, "Bob Baker").waitFor();
  await send("bob", "carol", "before you sleep");
  await article(page, "before you sleep").waitFor();
  for (const socket of sockets) dead.add(socket);
  await send("bob", "carol", "psst, she sleeps");
  await send("bob", "carol", "still asleep");
  for (const socket of dead) await socket.close({ code: 1001, reason: "" });
  await article(page, "psst, she sleeps").waitFor();
  await article(page, "still asleep").waitFor();
  const texts = (await shown(page)).map(([, text]) => text).slice(-3);
  assert.deepEqual(texts, ["before you sleep", "psst, she sleeps", "still asleep"]);
});

check("a message that arrives while the history is being loaded is displayed after it", async () => {
  let read, release;
  const isRead = new Promise((resolve) => { read = resolve; });
  const released = new Promise((resolve) => { release = resolve; });
  const prepare = (context) =>
    context.route("**/graphql", async (route) => {
      if (!route.request().postData()?.includes("query Messages(")) return route.fallback();
      const response = await route.fetch();
      read();
      await released;
      await route.fulfill({ response });
    });
  const page = await demo("carol", { path: "#/c/p_bob_carol", prepare });
  await isRead;
  await send("bob", "carol", "not in that answer");
  await row(page, "Bob Baker").getByText("not in that answer").waitFor();
  release();
  await article(page, "still asleep").waitFor();
  const texts = (await shown(page)).map(([, text]) => text).slice(-2);
  assert.deepEqual(texts, ["still asleep", "not in that answer"]);
});

check("no browser reported an error", async () => {
  assert.deepEqual(complained(), []);
});

await run();
