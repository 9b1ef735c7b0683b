// The second half of the scenario: everything else that people do in a chat.
import assert from "node:assert/strict";
import { newKey } from "../docs/clients/outbox.mjs";
import { upload } from "../docs/clients/upload.mjs";
import { Person, answerOnce, codeOf, done, holdSends, loseAnswers, until } from "./scenario.mjs";

const REFUSED = [{ message: "no", extensions: { code: "FORBIDDEN", retryable: false } }];

export async function tryWholeChat(given) {
  await failing(given);
  await firstMessages(given);
  await receipts(given);
  await typing(given);
  await revisions(given);
  await files(given);
  await groups(given);
}

async function failing({ client, chat, bob, conversationId }) {
  assert.equal(await chat.send({ conversationId, content: " " }), null);
  let [item] = chat.outbox.items;
  assert.equal(codeOf(item.failure), "INVALID_INPUT");
  await until("the refused message", () => client.contents().at(-1) === " ");
  assert.equal(await chat.outbox.retry(item.id), null);
  chat.outbox.discard(item.id);
  await until("it is discarded", () => !client.contents().includes(" "));

  answerOnce(REFUSED);
  assert.equal(await chat.send({ conversationId, content: "second thoughts" }), null);
  [item] = chat.outbox.items;
  assert.equal(codeOf(item.failure), "FORBIDDEN");
  await until("the failed message", () => client.contents().at(-1) === "second thoughts");
  assert.equal((await chat.outbox.retry(item.id)).content, "second thoughts");
  assert.deepEqual(chat.outbox.items, []);
  await until("the stored message", async () => client.contents().join() === (await bob.contents(conversationId)).join());
  assert.equal(client.contents().filter((content) => content === "second thoughts").length, 1);
  done("a refused message is shown as failed until it is sent again or discarded");

  const release = holdSends();
  const both = [chat.send({ conversationId, content: "one" }), chat.send({ conversationId, content: "two" })];
  release();
  await Promise.all(both);
  await until("both", async () => (await bob.contents(conversationId)).slice(-2).join() === "one,two");
  done("messages are stored in the order they were written");
}

async function firstMessages({ client, chat, user }) {
  const [dave, erin] = [new Person("dave"), new Person("erin")];
  for (const person of [dave, erin]) await person.ask("{ me { id } }");

  const withDave = chat.conversationWith(dave.name);
  await client.open(withDave);
  assert.deepEqual(client.contents(), []);
  const release = holdSends();
  const sending = chat.send({ toUserId: dave.name, content: "hello Dave" });
  await until("the first message while it is sent", () => client.contents().join() === "hello Dave");
  release();
  assert.equal((await sending).conversationId, withDave);
  await until("it is stored", () => chat.outbox.items.length === 0 && client.contents().join() === "hello Dave");
  await until("the new session", () => client.titles().includes(dave.name));
  await dave.send(user.name, "hello to you");
  await until("the answer", () => client.contents().join() === "hello Dave,hello to you");

  await client.open(chat.conversationWith(erin.name));
  assert.deepEqual(client.contents(), []);
  await erin.send(user.name, "hello from Erin");
  await until("the first message of another user", () => client.contents().join() === "hello from Erin");
  done("a first message is shown in a conversation that does not exist yet");
}

async function receipts({ client, chat, user, bob, conversationId }) {
  const query = "query ($id: ID!) { messages(conversationId: $id, last: 1) { edges { node { delivery { status } } } } }";
  const status = async () => (await bob.ask(query, { id: conversationId })).messages.edges[0].node.delivery?.status;
  await bob.send(user.name, "did you see this?");
  await until("the delivery", async () => (await status()) === "DELIVERED");
  await until("the count", () => client.unread(bob.name) > 0);
  await client.read(bob.name);
  await until("the other user's tick", async () => (await status()) === "READ");
  await until("the count of read messages", () => client.unread(bob.name) === 0);
  done("it acknowledges what was delivered and what was read");
}

async function typing({ client, chat, user, bob, conversationId }) {
  const heard = bob.listen();
  await until("Bob's subscription", () => heard.length > 0);
  const start = "mutation ($id: ID!) { startTyping(conversationId: $id) }";
  await until("Bob is typing", async () => {
    await bob.ask(start, { id: conversationId });
    return chat.typing.in(conversationId).some(({ id }) => id === bob.name);
  });
  await bob.send(user.name, "typed");
  await until("Bob has sent it", () => chat.typing.in(conversationId).length === 0);
  await until("Bob is typing again", async () => {
    await bob.ask(start, { id: conversationId });
    return chat.typing.in(conversationId).length > 0;
  });
  await bob.ask("mutation ($id: ID!) { stopTyping(conversationId: $id) }", { id: conversationId });
  await until("Bob has stopped", () => chat.typing.in(conversationId).length === 0);
  const bobHeard = (type) => heard.some(({ __typename }) => __typename === type);
  chat.typing.pressed(conversationId);
  await until("Bob sees typing", () => bobHeard("TypingStarted"));
  chat.typing.stopped(conversationId);
  await until("Bob sees its end", () => bobHeard("TypingStopped"));
  chat.typing.pressed(conversationId);
  await chat.send({ conversationId, content: "typed as well" });
  await client.open(conversationId);
  await until("both messages", () => client.contents().slice(-2).join() === "typed,typed as well");
  done("it shows who is typing, and tells others");
}

async function revisions({ client, chat, bob, conversationId }) {
  const message = await chat.send({ conversationId, content: "helo" });
  await until("the message", () => client.contents().at(-1) === "helo");
  await chat.act("editMessage", { messageId: message.id, content: "hello" });
  await until("the edit", () => client.contents().at(-1) === "hello");
  await until("the edit for Bob", async () => (await bob.contents(conversationId)).at(-1) === "hello");
  await chat.act("recallMessage", { messageId: message.id });
  await until("the recall", () => !client.contents().at(-1));
  await until("the recall for Bob", async () => (await bob.contents(conversationId)).at(-1) === null);
  await assert.rejects(chat.act("editMessage", { messageId: message.id, content: "again" }), (error) => codeOf(error) === "INVALID_INPUT");
  done("it edits and recalls messages");
}

async function files({ client, chat, bob, conversationId }) {
  const file = new File(["notes of the trip"], "notes.txt", { type: "text/plain" });
  const shares = [];
  const key = newKey();
  loseAnswers(3); // of each of the three requests, or of the first one three times
  const { id, state } = await upload(chat.act, { file, conversationId, description: "Our notes", key, progress: (share) => shares.push(share) });
  assert.deepEqual([state, shares.at(-1)], ["READY", 1]);
  assert.equal((await upload(chat.act, { file, conversationId, description: "Our notes", key })).id, id);
  const sent = await chat.send({ conversationId, content: "", attachmentIds: [id] });
  assert.deepEqual(sent.attachments.map(({ filename, sizeBytes }) => [filename, sizeBytes]), [["notes.txt", file.size]]);
  await until("the message", () => client.contents().at(-1) === "");

  const query = "query ($id: ID!) { attachment(id: $id) { url description contentType } }";
  const { attachment } = await bob.ask(query, { id });
  assert.deepEqual([attachment.description, attachment.contentType], ["Our notes", "text/plain"]);
  assert.equal(await (await fetch(attachment.url)).text(), "notes of the trip");
  await chat.act("recallMessage", { messageId: sent.id });
  assert.equal((await bob.ask(query, { id })).attachment?.url ?? null, null);
  done("it sends files, once each");
}

async function groups({ client, chat, user, bob, carol }) {
  const dave = new Person("dave");
  await dave.ask("{ me { id } }");
  const input = { name: "Trip", memberIds: [bob.name, carol.name], idempotencyKey: newKey() };
  const group = await chat.act("createGroup", { input });
  await until("the new group", () => client.titles().includes("Trip"));
  await chat.act("inviteMembers", { groupId: group.id, userIds: [dave.name] });
  const found = "query ($id: ID!) { group(id: $id) { name memberCount } }";
  await until("the invited member", async () => (await dave.ask(found, { id: group.id })).group?.memberCount === 4);
  await chat.act("updateGroup", { groupId: group.id, input: { name: "Trip to the lake" } });
  await until("the new name", () => client.titles().includes("Trip to the lake"));
  await until("the new name for Dave", async () => (await dave.ask(found, { id: group.id })).group.name === "Trip to the lake");
  await client.open(group.id);
  await chat.send({ conversationId: group.id, content: "all aboard" });
  await until("a message in the group", () => client.contents().includes("all aboard"));
  await assert.rejects(chat.act("leaveGroup", { groupId: group.id }), (error) => codeOf(error) === "OWNER_CANNOT_LEAVE");

  const create = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }";
  const { createGroup: club } = await bob.ask(create, { input: { name: "Club", memberIds: [user.name, carol.name] } });
  await until("the invitation", () => client.titles().includes("Club"));
  await chat.act("leaveGroup", { groupId: club.id });
  assert.equal((await bob.ask(found, { id: club.id })).group.memberCount, 2);
  done("it creates, renames and leaves groups, and invites");
}
