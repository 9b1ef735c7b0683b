import { readFileSync } from "node:fs";
import { ApolloClient, gql } from "@apollo/client/core";
import { apolloClient, openConversation, send, startApollo } from "../docs/clients/apollo.mjs";
import { SESSIONS } from "../docs/clients/operations.mjs";
import { openSocket } from "../docs/clients/socket.mjs";
import { asShown, inOrder } from "../docs/clients/sync.mjs";
import { noting, sleep, tryClient } from "./scenario.mjs";

const possibleTypes = JSON.parse(readFileSync(new URL("../web/types/confab.possible-types.json", import.meta.url)));

await tryClient(({ url, token, user }) => {
  const socket = noting(openSocket({ url, token, retryWait: () => sleep(20) }));
  const client = apolloClient({ url, token, possibleTypes, socket });
  const sessions = () => asShown(client.readQuery({ query: gql(SESSIONS) }).sessions.edges.map(({ node }) => node));
  let stop;
  let opened;
  let subscription;
  return {
    async start() { stop = await startApollo(client); },
    titles: () => sessions().map(({ conversation }) => conversation.title),
    unread: (title) => sessions().find(({ conversation }) => conversation.title === title).unreadCount,
    async open(conversationId) {
      subscription?.unsubscribe();
      opened = openConversation(client, conversationId);
      await new Promise((resolve) => { subscription = opened.subscribe(({ data }) => { if (data) resolve(); }); });
    },
    older: () => opened.fetchMore({ variables: { before: opened.getCurrentResult().data.messages.pageInfo.startCursor } }),
    contents: () => inOrder(opened.getCurrentResult().data.messages.edges.map(({ node }) => node)).map(({ content }) => content),
    send: (input) => send(client, { id: user, displayName: user }, input),
    async stop() {
      subscription.unsubscribe();
      stop();
      client.stop();
      await socket.dispose();
    },
  };
});
