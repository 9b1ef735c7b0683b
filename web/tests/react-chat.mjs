// The sample of docs/clients/react-chat with the package as npm packs it, in two browsers.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build, preview } from "vite";

import { check, open, run, url } from "./harness.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const modules = join(root, "web", "node_modules");
const folder = mkdtempSync(join(tmpdir(), "confab-react-chat-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

/** An empty project with the packed package next to the other packages. */
function makeProject() {
  cpSync(join(root, "docs", "clients", "react-chat"), folder, { recursive: true, filter: (path) => !/node_modules|dist/.test(path) });
  mkdirSync(join(folder, "node_modules", "@confab"), { recursive: true });
  for (const name of readdirSync(modules)) if (!name.startsWith(".")) symlinkSync(join(modules, name), join(folder, "node_modules", name));
  const packed = JSON.parse(execFileSync("npm", ["pack", "--json", "--pack-destination", folder], { cwd: join(root, "web", "client"), stdio: ["ignore", "pipe", "ignore"] }));
  execFileSync("tar", ["-xzf", join(folder, packed[0].filename), "-C", folder]);
  cpSync(join(folder, "package"), join(folder, "node_modules", "@confab", "client"), { recursive: true });
}

let server;
let alice, bob;
const conversation = (page, name) => page.getByRole("navigation").getByRole("button", { name }).first();
const write = async (place, text) => {
  await place.getByLabel("Message").fill(text);
  await place.getByRole("button", { name: "Send", exact: true }).click();
};

check("the sample has the right types and at most 150 lines", async () => {
  const lines = execFileSync("sh", ["-c", "cat *.tsx | wc -l"], { cwd: folder, encoding: "utf8" });
  assert.ok(Number(lines) <= 150, lines);
  execFileSync(process.execPath, [join(modules, "typescript", "bin", "tsc"), "-p", folder], { stdio: "pipe" });
});

check("a list, a conversation, and a message that the other sees", async () => {
  await build({ root: folder, logLevel: "silent" });
  process.env.CONFAB_URL = url;
  server = await preview({ root: folder, logLevel: "silent", preview: { port: 0 } });
  const at = server.resolvedUrls.local[0];
  [alice, bob] = await Promise.all(["alice", "bob"].map((name) => open(`${at}?as=${name}`, { name })));
  await conversation(alice, /^Bob/).click();
  await conversation(bob, /^Alice/).click();
  await write(alice.getByRole("main"), "Hello from the sample");
  await bob.getByRole("main").getByText("Hello from the sample").waitFor();
  await alice.getByRole("listitem").filter({ hasText: "Hello from the sample" }).getByText("READ").waitFor();
});

check("typing and reactions", async () => {
  await bob.getByLabel("Message").fill("a");
  await alice.getByText("typing…").waitFor();
  await bob.getByRole("listitem").filter({ hasText: "Hello from the sample" }).getByRole("button", { name: "👍" }).click();
  await alice.getByText("👍 1").waitFor();
});

check("a file", async () => {
  await alice.getByLabel("File").setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("some text") });
  await write(alice.getByRole("main"), "with a file");
  await bob.getByRole("link", { name: "notes.txt" }).waitFor();
});

check("a channel and a thread", async () => {
  for (const page of [alice, bob]) await page.getByRole("button", { name: "# general" }).click();
  await write(alice.getByRole("main"), "Who has time?");
  const parent = bob.getByRole("main").getByRole("listitem").filter({ hasText: "Who has time?" });
  await parent.getByRole("button", { name: "0 replies" }).click();
  await write(bob.getByRole("complementary"), "I have.");
  await bob.getByRole("complementary").getByText("I have.").waitFor();
  await alice.getByRole("listitem").filter({ hasText: "Who has time?" }).getByRole("button", { name: "1 replies" }).click();
  await alice.getByRole("complementary").getByText("I have.").waitFor();
});

await run(async () => makeProject());
await server?.close();
process.exit(0);
