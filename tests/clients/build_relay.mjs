// The build of a Relay project: relay-compiler, then its Babel plugin over the components.
import { transformFileSync } from "@babel/core";
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = new URL("../docs/clients/relay/", import.meta.url);
// The path of its program.
const { default: compiler } = await import("relay-compiler");
execFileSync(compiler, ["relay.config.json"], { cwd: fileURLToPath(folder), stdio: ["ignore", "ignore", "inherit"] });

// Bundlers find files without their extension; Node.js does not.
const extended = (code) => code.replace(/(from\s*["'][^"']+\.graphql)(?=["'])/g, "$1.js");
const artifacts = new URL("__generated__/", folder);
for (const name of readdirSync(artifacts)) {
  const file = new URL(name, artifacts);
  writeFileSync(file, extended(readFileSync(file, "utf8")));
}
for (const name of ["Chat.jsx", "actions.js"]) {
  const { code } = transformFileSync(fileURLToPath(new URL(name, folder)), {
    babelrc: false,
    configFile: false,
    plugins: [["relay", { eagerEsModules: true }], ["@babel/plugin-transform-react-jsx", { runtime: "automatic" }]],
  });
  writeFileSync(new URL(name.replace(/jsx?$/, "mjs"), folder), extended(code));
}
