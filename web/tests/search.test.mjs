// The pure parts of the demo's search (demo/src/confab/): node --test search.test.mjs
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

async function load(file) {
  const entry = fileURLToPath(new URL(`../demo/src/confab/${file}.ts`, import.meta.url));
  const [{ output }] = await build({ configFile: false, logLevel: "silent", build: { write: false, minify: false, lib: { entry, formats: ["es"] } } });
  return import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);
}

const { excerptOf, partsOf } = await load("highlights");
const { fold, filterByName, nameMatches } = await load("folding");
const { NO_FILTERS, DEBOUNCE_MS, filterOf, openSearch } = await load("search");

const range = (start, end) => ({ start, end });
const found = (parts) => parts.filter(({ isFound }) => isFound).map(({ text }) => text);
const whole = (parts) => parts.map(({ text }) => text).join("");

test("ranges count code points, so emoji and rare characters before a word do not move it", () => {
  for (const [text, ranges, words] of [
    ["the map", [range(4, 7)], ["map"]],
    ["😀😀 map", [range(3, 6)], ["map"]],
    ["𠮷野家 で", [range(0, 2)], ["𠮷野"]],
    ["👩‍👩‍👧 map", [range(6, 9)], ["map"]],
    ["e\u0301te\u0301 map", [range(0, 5), range(6, 9)], ["e\u0301te\u0301", "map"]],
    ["🏳️‍🌈", [range(0, 4)], ["🏳️‍🌈"]],
  ]) {
    const parts = partsOf(text, ranges);
    assert.deepEqual(found(parts), words);
    assert.equal(whole(parts), text);
  }
});

test("ranges may be unsorted, overlap, touch, be empty, or go beyond the text", () => {
  assert.deepEqual(found(partsOf("abcdef", [range(3, 5), range(0, 2)])), ["ab", "de"]);
  assert.deepEqual(partsOf("abcdef", [range(0, 3), range(2, 5)]).map(({ text }) => text), ["abc", "de", "f"]);
  assert.deepEqual(found(partsOf("abc", [range(2, 9), range(20, 30)])), ["c"]);
  assert.deepEqual(partsOf("abc", [range(1, 1)]).filter(({ isFound }) => isFound), []);
  assert.deepEqual(partsOf("abc", []), [{ text: "abc", isFound: false }]);
  assert.deepEqual(partsOf("", [range(0, 1)]), []);
});

test("an excerpt begins with the text if the first word is near, else shortly before it at a white space", () => {
  assert.equal(whole(excerptOf("short text with a map", [range(18, 21)])), "short text with a map");
  const long = `${"word ".repeat(100)}map ${"word ".repeat(100)}`;
  const parts = excerptOf(long, [range(500, 503)]);
  assert.deepEqual(found(parts), ["map"]);
  assert.match(whole(parts), /^…word (word )+map (word )+.*…$/);
  assert.ok(Array.from(whole(parts)).length <= 242);
  assert.match(whole(excerptOf("😀".repeat(300), [range(200, 202)])), /^…😀+…?$/u);
  assert.deepEqual(found(excerptOf("😀".repeat(300), [range(200, 202)])), ["😀😀"]);
  assert.equal(Array.from(whole(excerptOf("a".repeat(1000), []))).length, 241);
});

test("names are folded as the server folds them", () => {
  for (const [text, folded] of [
    ["Émile", "emile"],
    ["STRASSE", "strasse"],
    ["Straße", "strasse"],
    ["Łódź", "lodz"],
    ["Søren", "soren"],
    ["Ｆｕｌｌ", "full"],
    ["ΟΔΟΣ", "οδοσ"],
    ["όδος", "οδοσ"],
    ["O’Brien", "o'brien"],
    ["İstanbul", "istanbul"],
    ["ポ", "ポ"],
    ["がっこう", "がっこう"],
    ["ﾎﾟ", "ポ"],
    ["हिन्दी", "हिन्दी"],
  ]) assert.equal(fold(text), folded, text);
  assert.notEqual(fold("が"), fold("か"));
});

test("each word of a query begins a word of the name; names in scripts without spaces are found by any part", () => {
  for (const [name, query] of [["Bob Baker", "bo"], ["Bob Baker", "bak"], ["Bob Baker", "bak bo"], ["old-routes", "rou"], ["general", "#gen"], ["山田太郎", "太郎"], ["Émile Zola", "emi zol"]]) {
    assert.ok(nameMatches(name, query), `${name} / ${query}`);
  }
  for (const [name, query] of [["Bob Baker", "ob"], ["Bob Baker", "bob x"], ["Bob", ""], ["Bob", " ! "]]) assert.ok(!nameMatches(name, query), `${name} / ${query}`);
});

test("names that begin with the query come first, and the others keep their order", () => {
  assert.deepEqual(filterByName(["Ann Bo", "Carl Bo", "Bo Derek"], (name) => name, "bo"), ["Bo Derek", "Ann Bo", "Carl Bo"]);
});

test("a filter names only what narrows the search", () => {
  assert.deepEqual(filterOf(NO_FILTERS), {});
  assert.deepEqual(filterOf({ conversationId: "g_1", senderId: "bob", has: "IMAGE", pinned: true }), { conversationIds: ["g_1"], senderIds: ["bob"], has: ["IMAGE"], pinned: true });
});

/** An API whose requests are answered by the test. */
function scripted() {
  const requests = [];
  const request = ({ name }, variables, { signal }) =>
    new Promise((resolve, reject) => {
      const settle = async (end, value) => {
        end(value);
        await new Promise(setImmediate); // After this, the page has it.
      };
      requests.push({ name, variables, isCancelled: () => signal.aborted, answer: (data) => settle(resolve, data), refuse: (error) => settle(reject, error) });
    });
  const messages = () => requests.filter(({ name }) => name === "SearchMessages");
  return { api: { request }, requests, messages };
}

const page = (ids, { after = null, complete = true } = {}) => ({
  searchMessages: { edges: ids.map((id) => ({ node: { id }, highlights: [] })), pageInfo: { hasNextPage: after !== null, endCursor: after }, complete },
});
const idsIn = (search) => search.state().messages.map(({ node }) => node.id);

/** A search with a clock that the test moves. */
async function searching(body) {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const server = scripted();
    await body(openSearch(server.api), server, (ms) => mock.timers.tick(ms));
  } finally {
    mock.timers.reset();
  }
}

test("one request is sent when typing pauses", () =>
  searching((search, { messages }, pass) => {
    for (const text of ["m", "ma", "map"]) {
      search.change({ text });
      pass(DEBOUNCE_MS - 1);
    }
    assert.equal(messages().length, 0);
    pass(1);
    assert.deepEqual(messages().map(({ variables }) => variables), [{ query: "map", filter: {} }]);
    search.change({ text: "map " });
    pass(1000);
    assert.equal(messages().length, 1);
  }));

test("an answer never replaces that of a later search, and the last results stay until the next are there", () =>
  searching(async (search, { messages }, pass) => {
    search.change({ text: "one" });
    pass(DEBOUNCE_MS);
    await messages()[0].answer(page(["1"]));
    assert.deepEqual([idsIn(search), search.state().searching, search.state().answered], [["1"], false, "one"]);
    search.change({ text: "two" });
    pass(DEBOUNCE_MS);
    assert.deepEqual([idsIn(search), search.state().searching], [["1"], true]);
    search.change({ text: "three" });
    assert.ok(messages()[1].isCancelled());
    await messages()[1].answer(page(["2"]));
    assert.deepEqual(idsIn(search), ["1"]);
    pass(DEBOUNCE_MS);
    await messages()[2].answer(page([]));
    assert.deepEqual([idsIn(search), search.state().answered], [[], "three"]);
  }));

test("the next page is added without repetition, and one incomplete page makes the results incomplete", () =>
  searching(async (search, { messages }, pass) => {
    search.change({ text: "map" });
    pass(DEBOUNCE_MS);
    await messages()[0].answer(page(["1", "2"], { after: "c1" }));
    search.loadMore();
    search.loadMore();
    assert.deepEqual(messages().map(({ variables }) => variables.after), [undefined, "c1"]);
    await messages()[1].answer(page(["2", "3"], { complete: false }));
    assert.deepEqual([idsIn(search), search.state().complete, search.state().after], [["1", "2", "3"], false, null]);
    search.loadMore();
    assert.equal(messages().length, 2);
  }));

test("a page that arrives after the search has changed is dropped", () =>
  searching(async (search, { messages }, pass) => {
    search.change({ text: "map" });
    pass(DEBOUNCE_MS);
    await messages()[0].answer(page(["1"], { after: "c1" }));
    search.loadMore();
    search.change({ filters: { ...NO_FILTERS, pinned: true } });
    await messages()[1].answer(page(["2"]));
    assert.deepEqual([idsIn(search), search.state().loadingMore], [["1"], false]);
    pass(DEBOUNCE_MS);
    assert.deepEqual(messages()[2].variables, { query: "map", filter: { pinned: true } });
  }));

test("a refusal is reported, and a search that failed without a network can be tried again", () =>
  searching(async (search, { messages }, pass) => {
    search.change({ text: "-map" });
    pass(DEBOUNCE_MS);
    await messages()[0].refuse({ message: "Name a word to find.", code: "INVALID_INPUT", isRetryable: false });
    assert.deepEqual(search.state().failure, { text: "Name a word to find.", isRetryable: false });
    search.change({ text: "map" });
    pass(DEBOUNCE_MS);
    await messages()[1].refuse({ message: "offline", code: "NETWORK", isRetryable: true });
    assert.ok(search.state().failure.isRetryable);
    search.retry();
    pass(0);
    await messages()[2].answer(page(["1"]));
    assert.deepEqual([idsIn(search), search.state().failure], [["1"], null]);
  }));

test("an emptied field has no results, and sends no request", () =>
  searching(async (search, { requests, messages }, pass) => {
    search.change({ text: "map" });
    pass(DEBOUNCE_MS);
    await messages()[0].answer(page(["1"]));
    search.choose("1");
    search.change({ text: "  " });
    pass(1000);
    assert.equal(requests.length, 2);
    const { people, searching: busy, chosen } = search.state();
    assert.deepEqual([idsIn(search), people, busy, chosen], [[], [], false, null]);
  }));
