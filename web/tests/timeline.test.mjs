// The histories of @confab/client (client/src/store/timeline.ts) against a list of all messages: node --test timeline.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const entry = fileURLToPath(new URL("../client/src/store/timeline.ts", import.meta.url));
const [{ output }] = await build({ configFile: false, logLevel: "silent", build: { write: false, minify: false, lib: { entry, formats: ["es"] } } });
const { Timeline } = await import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);

/** Numbers from 0 to 1 that are the same for the same seed. */
function randomFrom(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** A page as the server answers it. A cursor is the seq of the message at that end. */
function page(all, from, to) {
  const items = all.slice(Math.max(0, from), Math.max(0, to));
  const info = { hasPreviousPage: from > 0 && items.length > 0, startCursor: items[0] && String(items[0].seq), hasNextPage: to < all.length, endCursor: items.length ? String(items.at(-1).seq) : undefined };
  return [items, info];
}

function walk(seed) {
  const random = randomFrom(seed);
  const pick = (count) => Math.floor(random() * count);
  const all = [];
  const timeline = new Timeline();
  const write = () => {
    // Messages that the user may not see leave gaps in the numbers.
    const item = { id: `m${all.length}`, seq: (all.at(-1)?.seq ?? 0) + 1 + pick(3) };
    all.push(item);
    return item;
  };
  for (let count = pick(60); count > 0; count--) write();
  const checked = (range) => {
    if (!range?.items.length) return;
    const from = all.findIndex(({ seq }) => seq === range.items[0].seq);
    assert.deepEqual(range.items, all.slice(from, from + range.items.length), `a gap, seed ${seed}`);
    if (range.isNewest) assert.equal(range.items.at(-1).seq, all.at(-1).seq, `the newest is missing, seed ${seed}`);
    if (range.older === null) assert.equal(from, 0, `older messages are hidden, seed ${seed}`);
  };
  for (let step = 0; step < 60; step++) {
    const size = 1 + pick(8);
    const seq = 1 + pick((all.at(-1)?.seq ?? 1) + 2);
    const range = pick(2) ? timeline.newest() : timeline.around(seq);
    const act = pick(6);
    if (act === 0) timeline.add(...page(all, all.length - size, all.length), { newest: true });
    if (act === 1) {
      const at = Math.max(0, all.findIndex((each) => each.seq >= seq));
      timeline.add(...page(all, Math.max(0, at - (size >> 1)), Math.min(all.length, at + size)), { aroundSeq: seq });
    }
    if (act === 2 && range?.older) {
      const end = all.findIndex((each) => String(each.seq) === range.older);
      timeline.add(...page(all, Math.max(0, end - size), end), { before: range.older });
    }
    if (act === 3 && range?.newer) {
      const begin = all.findIndex((each) => String(each.seq) === range.newer) + 1;
      timeline.add(...page(all, begin, Math.min(all.length, begin + size)), { after: range.newer });
    }
    if (act === 4) timeline.addLive(write());
    if (act === 5 && !pick(6)) timeline.clear();
    checked(timeline.newest());
    for (let each = 0; each < 3; each++) checked(timeline.around(1 + pick((all.at(-1)?.seq ?? 1) + 2)));
  }
}

test("no range has a gap, hides older messages or ends before the newest one, in any order of pages and events", () => {
  for (let seed = 0; seed < 3_000; seed++) walk(seed);
});

test("a message that is known twice is there once", () => {
  const timeline = new Timeline();
  const all = [1, 2, 3].map((seq) => ({ id: `m${seq}`, seq }));
  timeline.add(...page(all, 0, 3), { newest: true });
  timeline.addLive(all[2]);
  assert.ok(timeline.append(all[2]));
  assert.deepEqual(timeline.newest().items, all);
  assert.equal(timeline.append({ id: "m5", seq: 5 }), false);
});
