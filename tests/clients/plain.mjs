import { Pages, plainAct, plainClient, startPlain } from "../docs/clients/plain.mjs";
import { quickSocket, tryClient } from "./scenario.mjs";

// over: the socket, or another client with the same `subscribe`.
export const tryPlain = (over) => tryClient(({ url, token }) => {
  const client = plainClient({ url, token, socket: over({ url, token }) });
  const pages = new Pages(client);
  let chat;
  let stop;
  const sessions = () => chat.list(pages.sessions);
  const session = (title) => sessions().find(({ conversation }) => conversation.title === title);
  return {
    act: plainAct(client),
    async start(given) { stop = await startPlain(client, pages, chat = given); },
    titles: () => sessions().map(({ conversation }) => conversation.title),
    unread: (title) => session(title)?.unreadCount,
    read: (title) => chat.receipts.read(session(title)),
    open: (conversationId) => pages.open(conversationId),
    older: () => pages.older(),
    contents: () => chat.history(pages.conversationId, pages.messages).map(({ content }) => content),
    stop: () => { stop(); return client.close(); },
  };
});

if (process.argv[1].endsWith("plain.mjs")) await tryPlain(quickSocket);
