// Files that are chosen for a message, and drafts (demo/src/confab/uploads.ts, drafts.ts): node --test uploads.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const client = fileURLToPath(new URL("../client/src/index.ts", import.meta.url));
async function load(file) {
  const entry = fileURLToPath(new URL(`../demo/src/confab/${file}.ts`, import.meta.url));
  const resolve = { alias: { "@confab/client": client } };
  const [{ output }] = await build({ configFile: false, logLevel: "silent", resolve, build: { write: false, minify: false, lib: { entry, formats: ["es"] } } });
  return import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);
}

const { openUploads } = await load("uploads");
const { openDrafts } = await load("drafts");

const photo = (name) => new File(["pixels"], name, { type: "image/png" });
const notes = new File(["notes"], "notes.txt", { type: "text/plain" });

/** Uploads over a client whose uploads end when the test says so. */
function open() {
  const begun = [];
  const upload = (conversationId, file, options) => {
    const listeners = new Set();
    let state = { status: "sending", progress: 0 };
    const set = (now) => ((state = now), listeners.forEach((listener) => listener()));
    const made = {
      conversationId, file, options,
      get: () => state,
      subscribe: (listener) => (listeners.add(listener), () => listeners.delete(listener)),
      cancel: () => set({ status: "canceled", progress: 0 }),
      finish: (attachmentId) => set({ status: "ready", progress: 1, attachmentId }),
    };
    begun.push(made);
    return made;
  };
  const uploads = openUploads({ upload });
  return { begun, uploads, chosen: (id) => uploads.chosenFor(id).get(), names: (id) => uploads.chosenFor(id).get().map(({ file }) => file.name) };
}

test("chosen files belong to their conversation, in the order of choice, and the next message begins without them", () => {
  const { uploads, begun, names } = open();
  let changes = 0;
  uploads.chosenFor("g_1").subscribe(() => (changes += 1));
  uploads.add("g_1", [photo("one.png"), notes]);
  uploads.add("g_2", [photo("other.png")]);
  assert.ok(changes > 0);
  assert.deepEqual(names("g_1"), ["one.png", "notes.txt"]);
  assert.deepEqual(uploads.take("g_1"), begun.slice(0, 2));
  assert.deepEqual([names("g_1"), names("g_2")], [[], ["other.png"]]);
  assert.equal(uploads.chosenAs(begun[0]).file.name, "one.png");
});

test("the files of a thread are uploaded to its conversation, because the thread may not exist yet", () => {
  const { uploads, begun, names } = open();
  uploads.add("t_7_g_1", [notes]);
  assert.equal(begun[0].conversationId, "g_1");
  assert.deepEqual([names("t_7_g_1"), names("g_1")], [["notes.txt"], []]);
});

test("a new description uploads the file again, in the same place", () => {
  const { uploads, begun, chosen, names } = open();
  uploads.add("g_1", [photo("one.png"), photo("two.png")]);
  const { key } = chosen("g_1")[0];
  uploads.describe(chosen("g_1")[0], { description: "The sea", spoiler: true });
  assert.equal(begun[0].get().status, "canceled");
  assert.deepEqual(begun[2].options, { description: "The sea", spoiler: true });
  assert.deepEqual(names("g_1"), ["one.png", "two.png"]);
  assert.deepEqual(chosen("g_1").map((each) => each.upload), [begun[2], begun[1]]);
  assert.equal(chosen("g_1")[0].key, key);
});

test("a removed file is canceled, before the message is sent and after", () => {
  const { uploads, begun, chosen, names } = open();
  uploads.add("g_1", [photo("one.png"), notes]);
  uploads.remove(chosen("g_1")[0]);
  assert.deepEqual(names("g_1"), ["notes.txt"]);
  const [taken] = uploads.take("g_1");
  uploads.remove(uploads.chosenAs(taken));
  assert.deepEqual(begun.map((each) => each.get().status), ["canceled", "canceled"]);
});

test("a picture that was uploaded is displayed from this device, other files are not", () => {
  const { uploads, begun, chosen } = open();
  uploads.add("g_1", [photo("one.png"), notes]);
  const { localPicture } = chosen("g_1")[0];
  uploads.take("g_1");
  begun[0].finish("a_1");
  begun[1].finish("a_2");
  assert.match(localPicture, /^blob:/);
  assert.deepEqual(["a_1", "a_2", "a_3"].map(uploads.localPictureOf), [localPicture, null, null]);
});

test("drafts are stored by conversation and user, and a user's sign-out removes only their own", () => {
  const stored = new Map();
  globalThis.localStorage = new Proxy({
    getItem: (name) => stored.get(name) ?? null,
    setItem: (name, value) => void stored.set(name, value),
    removeItem: (name) => void stored.delete(name),
  }, { ownKeys: () => [...stored.keys()], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }) });
  const storagePrefix = "confab.browser";
  openDrafts(storagePrefix, "ann").set("g_1", "Hello");
  openDrafts(storagePrefix, "ann").set("g_2", "And you?");
  openDrafts(storagePrefix, "ann.draft").set("g_1", "Mine");
  assert.deepEqual(["g_1", "g_2", "g_3"].map(openDrafts(storagePrefix, "ann").get), ["Hello", "And you?", ""]);
  openDrafts(storagePrefix, "ann").set("g_2", "");
  assert.equal(stored.size, 2);
  openDrafts(storagePrefix, "ann").clear();
  assert.equal(openDrafts(storagePrefix, "ann").get("g_1"), "");
  assert.equal(openDrafts(storagePrefix, "ann.draft").get("g_1"), "Mine");
});
