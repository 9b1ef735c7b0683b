import { readFileSync } from "node:fs";
import { gql } from "@apollo/client/core";
import { apolloAct, apolloClient, openConversation, startApollo } from "../docs/clients/apollo.mjs";
import { SESSIONS } from "../docs/clients/operations.mjs";
import { quickSocket, tryClient } from "./scenario.mjs";

const possibleTypes = JSON.parse(readFileSync(new URL("../web/types/confab.possible-types.json", import.meta.url)));

await tryClient(({ url, token }) => {
  const socket = quickSocket({ url, token });
  const client = apolloClient({ url, token, possibleTypes, socket });
  let chat;
  const sessions = () => chat.list(client.readQuery({ query: gql(SESSIONS) }).sessions.edges.map(({ node }) => node));
  const session = (title) => sessions().find(({ conversation }) => conversation.title === title);
  let stop;
  let opened;
  let subscription;
  return {
    act: apolloAct(client),
    async start(given) { stop = await startApollo(client, chat = given); },
    titles: () => sessions().map(({ conversation }) => conversation.title),
    unread: (title) => session(title)?.unreadCount,
    read: (title) => chat.receipts.read(session(title)),
    async open(conversationId) {
      subscription?.unsubscribe();
      opened = openConversation(client, conversationId);
      await new Promise((resolve) => { subscription = opened.subscribe(({ data }) => { if (data) resolve(); }); });
    },
    older: () => opened.fetchMore({ variables: { before: opened.getCurrentResult().data.messages.pageInfo.startCursor } }),
    contents() {
      const messages = opened.getCurrentResult().data?.messages?.edges.map(({ node }) => node) ?? [];
      return chat.history(opened.variables.conversationId, messages).map(({ content }) => content);
    },
    async stop() {
      subscription.unsubscribe();
      stop();
      client.stop();
      await socket.dispose();
    },
  };
});
