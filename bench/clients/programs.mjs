// The clients' checks that are programs of their own, which say what they found and end with status 0 if it is good.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const LIMIT = 120_000;

async function run(name, ...args) {
  const child = spawn(process.execPath, [fileURLToPath(new URL(name, import.meta.url)), ...args], { timeout: LIMIT });
  const said = [];
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => said.push(text));
  const [code] = await once(child, "close");
  const lines = said.join("").trim().split("\n");
  if (code !== 0) throw new Error(lines.join("\n      "));
  return lines.join("; ");
}

export async function programs(deployment, report) {
  const [url] = deployment.urls;
  await report("graphql-http", "all audits", null, () => run("graphql_http_audits.mjs", url, deployment.token("alice")));
  await report("graphql-sse", "both modes", null, () =>
    run("graphql_sse.mjs", url, deployment.token("alice"), deployment.token("bob"), "100"));
}
