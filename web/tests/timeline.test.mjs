// The histories of @confab/client (client/src/store/timeline.ts) against a list of all messages: node --test timeline.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const entry = fileURLToPath(new URL("../client/src/store/timeline.ts", import.meta.url));
const [{ output }] = await build({ configFile: false, logLevel: "silent", build: { write: false, minify: false, lib: { entry, formats: ["es"] } } });
const { displayedPart, MAX_DISPLAYED, Timeline } = await import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);

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

// size: the largest page. A viewer keeps up to 350 messages; 50 newest and 100 live ones stay without a viewer.
function walk(seed, { size, messages, steps }) {
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
  for (let count = pick(messages); count > 0; count--) write();
  const isShown = (viewer) => (viewer.anchor === null ? timeline.newest() : timeline.around(viewer.anchor));
  // Each displays the part around a seq, or the newest messages.
  const viewers = Array.from({ length: pick(3) }, () => ({ anchor: null }));
  for (const viewer of viewers) {
    timeline.viewers.add(() => {
      const range = isShown(viewer);
      return range ? displayedPart(range, viewer.anchor ?? "newest") : [];
    });
  }
  const checked = (range) => {
    if (!range?.items.length) return;
    const from = all.findIndex(({ seq }) => seq === range.items[0].seq);
    assert.deepEqual(range.items, all.slice(from, from + range.items.length), `a gap, seed ${seed}`);
    if (range.isNewest) assert.equal(range.items.at(-1).seq, all.at(-1).seq, `the newest is missing, seed ${seed}`);
    if (range.older === null) assert.equal(from, 0, `older messages are hidden, seed ${seed}`);
    if (range.newer === null) assert.ok(range.isNewest, `newer messages are hidden, seed ${seed}`);
  };
  /** Answers come later than the messages that were written meanwhile. */
  const requests = [];
  const ask = (from, to, position) => requests.push([...page(all, from, to), position, timeline.liveCount, timeline.epoch]);
  const indexOf = (seq) => Math.max(0, all.findIndex((each) => each.seq >= seq));
  const askAround = (seq, position) => ask(Math.max(0, indexOf(seq) - (size >> 1)), Math.min(all.length, indexOf(seq) + (size >> 1) + 1), position);
  const answer = () => {
    const [items, info, position, liveCount, epoch] = requests.splice(pick(requests.length), 1)[0];
    if (epoch === timeline.epoch) timeline.add(items, info, position, liveCount);
  };
  for (let step = 0; step < steps; step++) {
    const count = 1 + pick(size);
    const seq = 1 + pick((all.at(-1)?.seq ?? 1) + 2);
    const range = pick(2) ? timeline.newest() : timeline.around(seq);
    const act = pick(9);
    if (act === 0) ask(all.length - count, all.length, { newest: true });
    if (act === 1) askAround(seq, { aroundSeq: seq });
    if (act === 2 && typeof range?.older === "string") ask(indexOf(range.older) - count, indexOf(range.older), { before: range.older });
    if (act === 2 && typeof range?.older === "number") askAround(range.older, { beforeSeq: range.older });
    if (act === 3 && typeof range?.newer === "string") ask(indexOf(range.newer) + 1, Math.min(all.length, indexOf(range.newer) + 1 + count), { after: range.newer });
    if (act === 3 && typeof range?.newer === "number") askAround(range.newer, { afterSeq: range.newer });
    if (act === 4) for (let times = pick(size) + 1; times > 0; times--) timeline.addLive(write());
    if (act === 5 && !pick(6)) timeline.clear();
    if (act === 6 && viewers.length) viewers[pick(viewers.length)].anchor = pick(2) ? null : seq;
    if (act === 7) {
      const before = viewers.map((viewer) => isShown(viewer) && displayedPart(isShown(viewer), viewer.anchor ?? "newest"));
      timeline.prune();
      const held = new Set(timeline.lists().flat());
      assert.ok(before.every((part) => !part || part.every((item) => held.has(item))), `something displayed was removed, seed ${seed}`);
      assert.ok(held.size <= viewers.length * (MAX_DISPLAYED + 50) + 150, `too much is kept, seed ${seed}`);
    }
    while (requests.length > pick(4)) answer();
    checked(timeline.newest());
    for (let each = 0; each < 3; each++) checked(timeline.around(1 + pick((all.at(-1)?.seq ?? 1) + 2)));
  }
  while (requests.length) answer();
  // All removed messages can be loaded again.
  for (const edge of ["older", "newer"]) {
    const viewer = { anchor: all.length ? all[pick(all.length)].seq : 1 };
    timeline.viewers.clear();
    timeline.viewers.add(() => (isShown(viewer) ? displayedPart(isShown(viewer), viewer.anchor) : []));
    askAround(viewer.anchor, { aroundSeq: viewer.anchor });
    answer();
    const seen = new Set();
    for (let moves = 0; ; moves++) {
      const range = isShown(viewer);
      if (!range) return assert.equal(all.length, 0, `nothing is shown, seed ${seed}`);
      checked(range);
      for (const { seq } of range.items) seen.add(seq);
      const at = range[edge];
      if (at === null) break;
      assert.ok(moves < all.length + 2, `no end, seed ${seed}`);
      viewer.anchor = (edge === "older" ? range.items[0] : range.items.at(-1))?.seq ?? viewer.anchor;
      if (typeof at === "number") askAround(at, edge === "older" ? { beforeSeq: at } : { afterSeq: at });
      else if (edge === "older") ask(indexOf(at) - size, indexOf(at), { before: at });
      else ask(indexOf(at) + 1, Math.min(all.length, indexOf(at) + 1 + size), { after: at });
      answer();
      timeline.prune();
      assert.ok(timeline.lists().flat().length <= MAX_DISPLAYED + 50 + 150, `too much is kept, seed ${seed}`);
    }
    const end = edge === "older" ? all[0] : all.at(-1);
    assert.ok(!end || seen.has(end.seq), `the end is missing, seed ${seed}`);
  }
}

test("no range has a gap, hides older messages or ends before the newest one, in any order of pages and events", () => {
  for (let seed = 0; seed < 1_500; seed++) walk(seed, { size: 8, messages: 60, steps: 60 });
});

test("the same in long histories, which are cut where they are not displayed", () => {
  for (let seed = 0; seed < 100; seed++) walk(seed, { size: 100, messages: 2_000, steps: 60 });
});

test("a message that arrives twice is in the history once", () => {
  const timeline = new Timeline();
  const all = [1, 2, 3].map((seq) => ({ id: `m${seq}`, seq }));
  timeline.add(...page(all, 0, 3), { newest: true });
  timeline.addLive(all[2]);
  assert.ok(timeline.append(all[2]));
  assert.deepEqual(timeline.newest().items, all);
  assert.equal(timeline.append({ id: "m5", seq: 5 }), false);
});
