import assert from "node:assert/strict";
import { plainClient } from "../docs/clients/plain.mjs";
import { developmentToken } from "../docs/clients/token.mjs";
import { done, server } from "./scenario.mjs";

const token = developmentToken(new URL(server).origin, "alice");
assert.equal(await token(), await token());
const { ask, close } = plainClient({ url: server, token });
assert.deepEqual(await ask("{ me { id } }"), { me: { id: "alice" } });
await close();
await assert.rejects(developmentToken(new URL(server).origin, "nobody")(), /no token: 400/);
done("people of the demo are signed in");
