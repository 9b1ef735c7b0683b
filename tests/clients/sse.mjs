// The same over server-sent events, for networks that block WebSockets.
import { createClient } from "graphql-sse";
import { Chat, plainClient } from "../docs/clients/plain.mjs";
import { noting, sleep, tryClient } from "./scenario.mjs";

await tryClient(({ url, token, user }) => {
  const stream = createClient({
    url,
    headers: async () => ({ authorization: `Bearer ${await token()}` }),
    retryAttempts: Infinity,
    retry: () => sleep(20),
  });
  const client = plainClient({ url, token, socket: noting(stream) });
  const chat = new Chat(client, { id: user, displayName: user });
  let opened;
  let oldest;
  return {
    start: () => chat.start(),
    titles: () => chat.list.map(({ conversation }) => conversation.title),
    unread: (title) => chat.list.find(({ conversation }) => conversation.title === title)?.unreadCount,
    async open(conversationId) { oldest = await chat.open(opened = conversationId); },
    older: () => chat.open(opened, oldest),
    contents: () => chat.history(opened).map(({ content }) => content),
    send: (input) => chat.send(input),
    stop: () => { chat.stop(); return client.close(); },
  };
});
