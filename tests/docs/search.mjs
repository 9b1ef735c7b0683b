// Searches in a built site with the site's own search worker, and prints the pages that were found, as JSON.
// Use: node search.mjs FOLDER QUERY...
import { readFileSync, readdirSync } from "node:fs";

const [folder, ...queries] = process.argv.slice(2);
const workers = `${folder}/assets/javascripts/workers`;
const [worker] = readdirSync(workers).filter((name) => name.startsWith("search."));
// The worker changes what it is given, so each search has its own.
const noFilter = () => ({
  input: { type: "operator", data: { operator: "and", operands: [] } },
  aggregation: { input: [{ type: "term", data: { field: "tags" } }] },
});

globalThis.self = globalThis;
(0, eval)(readFileSync(`${workers}/${worker}`, "utf8"));

function ask(data) {
  return new Promise((answered) => {
    self.postMessage = answered;
    self.onmessage({ data });
  });
}

const index = JSON.parse(readFileSync(`${folder}/search.json`, "utf8"));
await ask({ type: 0, data: index });
const found = {};
for (const input of queries) {
  const { data } = await ask({ type: 2, data: { input, filter: noFilter() } });
  found[input] = data.items.map(({ id }) => index.items[id].location);
}
console.log(JSON.stringify(found));
