// Files of the package @confab/client against a real server.
import assert from "node:assert/strict";
import { privateId } from "../web/client/index.mjs";
import { done, open, signIn, texts } from "./package_parts.mjs";
import { Person, sleep, until } from "./scenario.mjs";

const [ann, ben] = [new Person("ann"), new Person("ben")];
await ann.ask("{ me { id } }");
await ben.ask("{ me { id } }");
const conversation = privateId(ann.name, ben.name);
const [a, b] = [ann, ben].map(({ name }) => signIn(name));
const [mine, theirs] = [a, b].map((client) => open(client.messages(conversation)));
await until("both are active", () => [a, b].every((client) => client.state.get() === "Active"));

const text = new File(["some text\n".repeat(1000)], "notes.txt", { type: "text/plain" });
const upload = a.upload(conversation, text, { description: "Notes" });
a.send(conversation, { text: "with a file", files: [upload] });
assert.deepEqual(mine.get().pending.map(({ draft }) => draft.text), ["with a file"]);
a.send(conversation, { text: "without" });
await until("both messages", () => texts(theirs).includes("with a file") && texts(theirs).includes("without"));
const [file] = theirs.get().messages.find(({ content }) => content === "with a file").attachments;
assert.deepEqual([file.filename, file.contentType, file.description, file.sizeBytes], ["notes.txt", "text/plain", "Notes", text.size]);
assert.equal(await (await fetch(file.url)).text(), await text.text());
assert.equal(upload.get().status, "ready");
await until("nothing waits", () => !mine.get().pending.length);
done("a message waits for its file");

const empty = a.upload(conversation, new File([], "empty.txt"));
await until("a refusal", () => empty.get().status === "failed");
assert.equal(empty.get().error.code, "INVALID_INPUT");
const large = a.upload(conversation, new File([new Uint8Array(26 * 1024 * 1024)], "large.bin"));
await until("a file that is too large", () => large.get().status === "failed");
assert.equal(large.get().error.code, "TOO_LARGE");
const held = a.send(conversation, { text: "with both", files: [empty, large] });
await until("the message says why", () => mine.get().pending.find(({ key }) => key === held.key)?.failure === empty.get().error.message);
a.discard(held.key);
assert.deepEqual(mine.get().pending, []);
done("files that are refused");

// The first answers are lost: the same upload is used again.
const untouched = globalThis.fetch;
const lost = new Set(["createUpload", "completeUpload", "PUT"]);
globalThis.fetch = async (url, request) => {
  const response = await untouched(url, request);
  const name = request.method === "POST" ? [...lost].find((each) => String(request.body).includes(each)) : request.method;
  if (!lost.delete(name)) return response;
  await response.arrayBuffer();
  throw new TypeError("fetch failed");
};
const again = a.upload(conversation, new File(["again"], "again.txt", { type: "text/plain" }));
a.send(conversation, { text: "once", files: [again] });
await until("the message", () => texts(theirs).includes("once"));
globalThis.fetch = untouched;
assert.equal(lost.size, 0);
await sleep(300);
assert.equal(texts(theirs).filter((each) => each === "once").length, 1);
assert.equal(theirs.get().messages.at(-1).attachments.length, 1);
done("an upload goes on after lost answers");

const kept = a.upload(conversation, new File(["yes"], "yes.txt"));
const removed = a.upload(conversation, new File([], "no.txt"));
a.send(conversation, { text: "with one of two", files: [kept, removed] });
const alone = a.upload(conversation, new File([], "alone.txt"));
const nothing = a.send(conversation, { text: "", files: [alone] });
for (const each of [removed, alone]) each.cancel();
assert.equal(removed.get().status, "canceled");
assert.ok(!mine.get().pending.some(({ key }) => key === nothing.key));
await until("the message without the removed file", () => texts(theirs).includes("with one of two"));
assert.deepEqual(theirs.get().messages.at(-1).attachments.map(({ filename }) => filename), ["yes.txt"]);
[a, b].forEach((client) => client.stop());
done("a message is sent without the files that are canceled");
process.exit(0);
