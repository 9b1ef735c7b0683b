import { gql } from "@apollo/client/core";
import assert from "node:assert/strict";
import WebSocket from "ws";
import { SESSIONS } from "../docs/clients/operations.mjs";
import { plainClient } from "../docs/clients/plain.mjs";
import { openSocket } from "../docs/clients/socket.mjs";
import { start } from "../docs/clients/start.mjs";
import { developmentToken } from "../docs/clients/token.mjs";
import { done, server } from "./scenario.mjs";

const token = developmentToken(new URL(server).origin, "alice");
assert.equal(await token(), await token());
const refused = await token();
await new Promise((resolve) => { setTimeout(resolve, 1100); }); // Tokens contain whole seconds.
assert.notEqual(await token(refused), refused);
const { ask, close } = plainClient({ url: server, token, socket: openSocket({ url: server, token, webSocketImpl: WebSocket }) });
assert.deepEqual(await ask("{ me { id } }"), { me: { id: "alice" } });
await close();
await assert.rejects(developmentToken(new URL(server).origin, "nobody")(), /no token: 400/);
done("people of the demo are signed in");

const { client, chat, stop } = await start(new URL(server).origin, {}, { webSocketImpl: WebSocket });
assert.deepEqual(chat.me.id, "alice");
assert.equal(client.readQuery({ query: gql(SESSIONS) }).sessions.totalUnread, 0);
stop();
done("the start works");
process.exit(0);
