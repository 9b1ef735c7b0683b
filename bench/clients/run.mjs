// The public JavaScript clients against Confab:
//   (cd bench && npm install) && node bench/clients/run.mjs [--python .venv/bin/python]
// starts a MongoDB, a Redis and servers of its own, which it stops, kills and starts again. With
//   --url http://127.0.0.1:8000/graphql [--secret SECRET]
// it uses one that runs (confab dev), and leaves out what takes servers of its own. --only TEXT: what has TEXT in its name.
// Ends with status 1 if anything is not as it should be.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { parseArgs } from "node:util";
import { closeCodes } from "./close_codes.mjs";
import { programs } from "./programs.mjs";
import { resuming } from "./resuming.mjs";
import { Deployment, OwnDeployment } from "./servers.mjs";

const DEVELOPMENT_SECRET = "confab-development-secret-known-to-everybody";

const { values } = parseArgs({
  options: {
    url: { type: "string" },
    secret: { type: "string", default: DEVELOPMENT_SECRET },
    python: { type: "string", default: ".venv/bin/python" },
    only: { type: "string", default: "" },
  },
});

const { dependencies } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url)));
const require = createRequire(import.meta.url);
const installed = Object.keys(dependencies).map((name) => {
  const folder = require.resolve.paths(name).map((path) => `${path}/${name}/package.json`);
  for (const path of folder) {
    try {
      return `${name} ${JSON.parse(readFileSync(path)).version}`;
    } catch {}
  }
  return `${name} missing`;
});
console.log(`node ${process.versions.node}, ${installed.join(", ")}\n`);

const deployment = values.url
  ? new Deployment([values.url], values.secret)
  : await OwnDeployment.start(values.python);
const counts = { passed: 0, failed: 0, skipped: 0 };

async function report(client, what, missing, attempt) {
  if (!`${client} ${what}`.includes(values.only)) return;
  const line = `${client.padEnd(14)} ${what}`;
  if (missing) {
    counts.skipped += 1;
    console.log(`  -   ${line}: not tried, takes ${missing}`);
    return;
  }
  const began = performance.now();
  try {
    const result = await attempt();
    counts.passed += 1;
    console.log(`  ok  ${line}: ${result} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
  } catch (error) {
    counts.failed += 1;
    console.log(`FAIL  ${line}: ${error?.message ?? JSON.stringify(error)}`);
  }
}

try {
  for (const user of ["bob", "alice"]) await deployment.ask(user, "{ totalUnread }");
  await closeCodes(deployment, report);
  await resuming(deployment, report);
  await programs(deployment, report);
} finally {
  await deployment.close();
}
console.log(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
process.exit(counts.failed ? 1 : 0);
