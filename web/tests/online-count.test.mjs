// The number of online members (demo/src/ui/workspaces/OnlineCount.tsx): node --test online-count.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const entry = fileURLToPath(new URL("../demo/src/ui/workspaces/OnlineCount.tsx", import.meta.url));
const define = { "process.env.NODE_ENV": JSON.stringify("production") };
const [{ output }] = await build({ configFile: false, logLevel: "silent", define, build: { write: false, minify: false, lib: { entry, formats: ["es"] } } });
const { OnlineCount } = await import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);

/** The text of what a component returns. */
const textOf = (node) => (Array.isArray(node) ? node.map(textOf).join("") : typeof node === "object" ? textOf(node.props.children) : String(node ?? ""));

test("the number of online members is shown, with the children after it", () => {
  assert.equal(textOf(OnlineCount({ count: 3, children: " · " })).trimStart(), "3 online · ");
  assert.equal(textOf(OnlineCount({ count: 1 })).trimStart(), "1 online");
});

test("nothing is shown while the number is 0", () => {
  assert.equal(OnlineCount({ count: 0, children: " · " }), null);
});
