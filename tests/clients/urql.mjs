import { readFileSync } from "node:fs";
import { MESSAGES, SESSIONS } from "../docs/clients/operations.mjs";
import { startUrql, urqlAct, urqlClient } from "../docs/clients/urql.mjs";
import { quickSocket, tryClient } from "./scenario.mjs";

const schema = JSON.parse(readFileSync(new URL("../web/types/confab.introspection.json", import.meta.url)));

await tryClient(({ url, token }) => {
  const socket = quickSocket({ url, token });
  const client = urqlClient({ url, token, schema, socket });
  const shown = {};
  let conversationId;
  const stops = [];
  const show = (name, query, variables) => new Promise((resolve) => {
    stops.push(client.query(query, variables).subscribe(({ data }) => {
      if (data && (!variables.conversationId || variables.conversationId === conversationId)) resolve(shown[name] = data);
    }).unsubscribe);
  });
  let chat;
  const sessions = () => chat.list(shown.sessions.sessions.edges.map(({ node }) => node));
  const session = (title) => sessions().find(({ conversation }) => conversation.title === title);
  return {
    act: urqlAct(client),
    async start(given) {
      chat = given;
      await show("sessions", SESSIONS, {});
      stops.push(await startUrql(client, chat));
    },
    titles: () => sessions().map(({ conversation }) => conversation.title),
    unread: (title) => session(title)?.unreadCount,
    read: (title) => chat.receipts.read(session(title)),
    open: (id) => show("messages", MESSAGES, { conversationId: conversationId = id }),
    older: () => show("messages", MESSAGES, { conversationId, before: shown.messages.messages.pageInfo.startCursor }),
    contents() {
      const messages = shown.messages.messages?.edges.map(({ node }) => node) ?? [];
      return chat.history(conversationId, messages).map(({ content }) => content);
    },
    async stop() {
      for (const stop of stops) stop();
      await socket.dispose();
    },
  };
});
