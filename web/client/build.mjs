// Builds dist: the modules, and their types with whole file names, which TypeScript's module resolution "nodenext" needs.
import { execFileSync } from "node:child_process";
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const here = fileURLToPath(new URL(".", import.meta.url));
const dist = join(here, "dist");
rmSync(dist, { recursive: true, force: true });
await build({ configFile: join(here, "vite.config.ts"), logLevel: "warn" });
const tsc = join(here, "..", "node_modules", "typescript", "bin", "tsc");
execFileSync(process.execPath, [tsc, "-p", here, "--declaration", "--emitDeclarationOnly"], { stdio: "inherit" });
for (const name of readdirSync(dist, { recursive: true }).filter((each) => each.endsWith(".d.ts"))) {
  const path = join(dist, name);
  writeFileSync(path, readFileSync(path, "utf8").replace(/from "(\.[^"]+)"/g, 'from "$1.js"'));
}
copyFileSync(join(here, "..", "..", "LICENSE"), join(dist, "LICENSE"));
