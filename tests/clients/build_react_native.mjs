// Bundles react_native.ts into one script: node build_react_native.mjs WEB OUT [hermes]. WEB: the folder with node_modules.
// hermes: without the syntax that Hermes does not know, as Metro does it, and with hermes_prelude.js.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [web, out, engine] = process.argv.slice(2);
const require = createRequire(join(web, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const here = (name) => fileURLToPath(new URL(name, import.meta.url));

const { build } = await load("vite");
const [{ output: [{ code }] }] = await build({
  root: web,
  configFile: false,
  logLevel: "warn",
  resolve: { alias: { "@confab/client": join(web, "client/src/index.ts"), "graphql-ws": join(web, "node_modules/graphql-ws") } },
  build: { write: false, minify: false, target: "es2022", lib: { entry: here("react_native.ts"), formats: ["iife"], name: "program" } },
});
if (engine === "hermes") {
  const { default: babel } = await load("@babel/core");
  const plugins = ["async-to-generator", "async-generator-functions", "class-properties", "private-methods", "classes"];
  const options = { configFile: false, babelrc: false, sourceType: "script", compact: false };
  const lowered = babel.transformSync(code, { ...options, plugins: plugins.map((each) => require.resolve(`@babel/plugin-transform-${each}`)) });
  writeFileSync(out, readFileSync(here("hermes_prelude.js"), "utf8") + lowered.code);
} else {
  writeFileSync(out, `globalThis.print = console.log;\n${code}`);
}
