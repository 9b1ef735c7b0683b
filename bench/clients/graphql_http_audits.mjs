// The audits of npm graphql-http against a running Confab:
//   node clients/graphql_http_audits.mjs http://127.0.0.1:8000/graphql TOKEN
// Prints what did not pass, and how many did of each kind. Ends with status 1 unless every MUST and SHOULD passes.
import { serverAudits } from "graphql-http";

const [url, token] = process.argv.slice(2);
if (!url) {
  console.error("usage: node clients/graphql_http_audits.mjs HTTP_URL [TOKEN]");
  process.exit(2);
}

const authorized = (target, { headers, ...options } = {}) =>
  fetch(target, { ...options, headers: token ? { ...headers, authorization: `Bearer ${token}` } : headers });
const passed = {};
const count = {};
for (const audit of serverAudits({ url, fetchFn: authorized })) {
  const kind = audit.name.split(" ")[0];
  const result = await audit.fn();
  count[kind] = (count[kind] ?? 0) + 1;
  passed[kind] = (passed[kind] ?? 0) + (result.status === "ok" ? 1 : 0);
  if (result.status !== "ok") console.log(`${result.status}: ${audit.id} ${audit.name}: ${result.reason}`);
}
for (const kind of Object.keys(count)) console.log(`${kind} ${passed[kind]} of ${count[kind]}`);
process.exit(passed.MUST === count.MUST && passed.SHOULD === count.SHOULD ? 0 : 1);
