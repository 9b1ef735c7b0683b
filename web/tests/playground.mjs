// The playground: signing in, queries, subscriptions, looks.
import assert from "node:assert/strict";

import { check, complained, eventually, isAccessible, open, run } from "./harness.mjs";

let page;

check("the page comes up without a complaint", async () => {
  page = await open("/graphql", { name: "playground" });
  await page.waitForLoadState("networkidle");
  assert.deepEqual(complained(), []);
});

await run();
