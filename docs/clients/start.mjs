import { gql } from "@apollo/client/core";
import { apolloAct, apolloClient, startApollo } from "./apollo.mjs";
import { Chat } from "./chat.mjs";
import { ME } from "./operations.mjs";
import { openSocket } from "./socket.mjs";
import { developmentToken } from "./token.mjs";

// origin: "http://127.0.0.1:8000", where `make run` serves. possibleTypes: web/types/confab.possible-types.json.
export async function start(origin, possibleTypes, socketOptions) {
  const url = `${origin}/graphql`;
  const token = developmentToken(origin, "alice");
  const client = apolloClient({ url, token, possibleTypes, socket: openSocket({ url, token, ...socketOptions }) });
  const { data: { me } } = await client.query({ query: gql(ME) });
  const chat = new Chat(me, apolloAct(client));
  const stop = await startApollo(client, chat);
  return { client, chat, stop };
}
