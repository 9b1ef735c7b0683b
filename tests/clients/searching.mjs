import assert from "node:assert/strict";
import { Results, around, partsOf } from "../docs/clients/search.mjs";
import { Person, done, until } from "./scenario.mjs";

const [ann, ben, eve] = ["ann", "ben", "eve"].map((name) => new Person(name));
for (const person of [ben, eve]) await person.ask("{ me { id } }");
const ask = (query, variables) => ann.ask(query, variables);
const search = async (query, filter) => {
  const results = new Results(ask, query, filter);
  await results.more();
  return results;
};
const texts = ({ found }) => found.map(({ node }) => node.content);

const first = await ann.send(ben.name, "😀😀 A CAFÉ by the lake");
for (let number = 0; number < 45; number += 1) await ben.send(ann.name, `Stone ${number}`);
await ann.send(eve.name, "The other café, and the museum");
await until("the index", async () => (await search("cafe")).found.length === 2 && (await search('"stone 44"')).found.length === 1);

const results = await search("cafe -museum");
assert.deepEqual(texts(results), ["😀😀 A CAFÉ by the lake"]);
const [{ node, highlights }] = results.found;
assert.deepEqual(partsOf(node.content, highlights), [
  { text: "😀😀 A ", isFound: false }, { text: "CAFÉ", isFound: true }, { text: " by the lake", isFound: false },
]);
done("the words of a result are highlighted by code points");

const stones = new Results(ask, "stone", { conversationIds: [first.conversationId], senderIds: [ben.name] });
const sizes = [];
while (stones.hasMore) {
  await stones.more();
  sizes.push(stones.found.length);
}
assert.deepEqual(sizes, [20, 40, 45]);
assert.equal(stones.found[0].node.content, "Stone 44");
assert.equal(new Set(stones.found.map(({ node: { id } }) => id)).size, 45);
done("results are fetched page by page, newest first");

const middle = stones.found.find(({ node: { content } }) => content === "Stone 20").node;
const { edges, pageInfo } = await around(ask, middle);
const seqs = edges.map(({ node: { seq } }) => seq);
assert.ok(seqs.includes(middle.seq - 5) && seqs.includes(middle.seq + 5));
assert.equal(typeof pageInfo.hasNextPage, "boolean");
done("a result is shown with its neighbours");

await until("a complete search", async () => (await search("cafe")).complete);
done("a complete search says so");
