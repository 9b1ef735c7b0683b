import { readFileSync } from "node:fs";
import { MESSAGES, SESSIONS } from "../docs/clients/operations.mjs";
import { openSocket } from "../docs/clients/socket.mjs";
import { asShown, inOrder } from "../docs/clients/sync.mjs";
import { Outbox, startUrql, urqlClient } from "../docs/clients/urql.mjs";
import { noting, sleep, tryClient } from "./scenario.mjs";

const schema = JSON.parse(readFileSync(new URL("../web/types/confab.introspection.json", import.meta.url)));

await tryClient(({ url, token, user }) => {
  const socket = noting(openSocket({ url, token, retryWait: () => sleep(20) }));
  const client = urqlClient({ url, token, schema, socket });
  const outbox = new Outbox();
  const shown = {};
  let conversationId;
  const stops = [];
  const show = (name, query, variables) => new Promise((resolve) => {
    stops.push(client.query(query, variables).subscribe(({ data }) => { if (data) resolve(shown[name] = data[name]); }).unsubscribe);
  });
  const sessions = () => asShown(shown.sessions.edges.map(({ node }) => node));
  return {
    async start() {
      await show("sessions", SESSIONS, {});
      stops.push(await startUrql(client, () => client.query(MESSAGES, { conversationId }, { requestPolicy: "network-only" }).toPromise()));
    },
    titles: () => sessions().map(({ conversation }) => conversation.title),
    unread: (title) => sessions().find(({ conversation }) => conversation.title === title).unreadCount,
    open: (id) => show("messages", MESSAGES, { conversationId: conversationId = id }),
    older: () => show("messages", MESSAGES, { conversationId, before: shown.messages.pageInfo.startCursor }),
    contents: () => inOrder([...shown.messages.edges.map(({ node }) => node), ...outbox.waiting().filter((each) => each.conversationId === conversationId)]).map(({ content }) => content),
    send: (input) => outbox.send(client, { id: user, displayName: user }, input),
    async stop() {
      for (const stop of stops) stop();
      await socket.dispose();
    },
  };
});
