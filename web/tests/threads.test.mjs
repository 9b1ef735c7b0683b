// Addresses of threads in the demo (demo/src/ui/route.ts): node --test threads.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const src = fileURLToPath(new URL("../client/src/", import.meta.url));
const entry = fileURLToPath(new URL("../demo/src/ui/route.ts", import.meta.url));
const resolve = { alias: { "@confab/client": `${src}index.ts` } };
const [{ output }] = await build({ configFile: false, logLevel: "silent", resolve, build: { write: false, minify: false, lib: { entry, formats: ["es"] } } });
const { isDisplayed, pathTo } = await import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);

test("the address of a thread names its conversation, and may name a reply", () => {
  assert.equal(pathTo({ workspaceId: "w_1", conversationId: "c_1", threadSeq: 7 }), "#/w/w_1/c/c_1/t/7");
  assert.equal(pathTo({ conversationId: "g_1", threadSeq: 7, seq: 2 }), "#/c/g_1/t/7/2");
  assert.equal(pathTo({ workspaceId: "w_1", threads: true }), "#/w/w_1/threads");
});

test("the id of a thread leads to the thread next to its conversation", () => {
  assert.equal(pathTo({ subBiz: "shop", conversationId: "t_12_p_alice_user%5F2~shop", seq: 3 }), "#/b/shop/c/p_alice_user%5F2~shop/t/12/3");
  for (const hash of ["#/c/g_1/t/7", "#/c/g_1/t/7/2", "#/c/t_7_g_1", "#/c/t_7_g_1/2", "#/w/w_1/c/g_1/t/7"]) {
    globalThis.location = { hash };
    assert.deepEqual(["g_1", "t_7_g_1", "t_2_g_1", "t_7_g_2"].map(isDisplayed), [true, true, false, false], hash);
  }
  globalThis.location = { hash: "#/c/g_1/7" };
  assert.deepEqual(["g_1", "t_7_g_1"].map(isDisplayed), [true, false]);
});
