// Puts the libraries of the GraphiQL page where Confab serves them from: installs them with npm, takes the few files
// that server/pages/graphiql/assets.json names, checks their hashes, and throws the rest away.
// Usage: node web/graphiql.mjs. Exits 1 with one sentence where that cannot be done; what was placed before stays.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const PATIENCE_MS = 120_000;
const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "..", "server", "static", "graphiql");
const assets = JSON.parse(readFileSync(join(here, "..", "server", "pages", "graphiql", "assets.json"), "utf8"));

function install(folder) {
  for (const name of ["package.json", "package-lock.json", ".npmrc"]) cpSync(join(here, name), join(folder, name));
  const npm = spawnSync("npm", ["ci"], { cwd: folder, encoding: "utf8", timeout: PATIENCE_MS });
  if (npm.error) throw npm.error.code === "ETIMEDOUT" ? new Error("npm ci took too long") : npm.error;
  if (npm.status !== 0) {
    const complaint = npm.stderr.split("\n").find((line) => line.startsWith("npm error"));
    throw new Error(complaint ?? `npm ci ended with ${npm.status}`);
  }
}

function checked(asset, folder) {
  const content = readFileSync(join(folder, "node_modules", asset.package, asset.path));
  const integrity = "sha384-" + createHash("sha384").update(content).digest("base64");
  if (integrity !== asset.integrity) throw new Error(`${asset.package}/${asset.path} is not the file it should be`);
  return content;
}

const folder = mkdtempSync(join(tmpdir(), "confab-graphiql-"));
try {
  install(folder);
  const contents = assets.map((asset) => [asset.file, checked(asset, folder)]);
  mkdirSync(target, { recursive: true });
  for (const [file, content] of contents) {
    // Renamed into place, so that a server running meanwhile never sends half a file.
    writeFileSync(join(target, `.${file}`), content);
    renameSync(join(target, `.${file}`), join(target, file));
  }
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
