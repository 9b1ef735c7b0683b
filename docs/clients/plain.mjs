import { trying } from "./errors.mjs";
import { requests } from "./http.mjs";
import { MESSAGES, MESSAGE_EVENTS, MUTATIONS, SESSIONS, SESSION_EVENTS, SYNC, isRepeatable } from "./operations.mjs";
import { openSocket, resuming } from "./socket.mjs";
import { keepInSync } from "./sync.mjs";

export function plainClient({ url, token, socket = openSocket({ url, token }) }) {
  const live = resuming(socket);
  const request = requests(url, token);

  function listen(query, variables, take) {
    return live.subscribe({ query, variables }, {
      next: ({ data, errors }) => (errors ? console.error(errors) : take(data)),
      error: console.error, // final: an error that is not retryable, or a close code after which a retry cannot help
      complete() {},
    });
  }

  return { ask: async (query, variables) => (await request(query, variables)).data, listen, close: () => socket.dispose() };
}

// Executes a mutation of operations.mjs.
export function plainAct({ ask }) {
  return async (name, variables) => (await trying(() => ask(MUTATIONS[name], variables), isRepeatable(name, variables)))[name];
}

// The pages that were fetched, which other libraries keep in their cache.
export class Pages {
  sessions = [];
  messages = [];
  #client;

  constructor(client) {
    this.#client = client;
  }

  // Fetches the first page of sessions.
  async list() {
    const { sessions } = await trying(() => this.#client.ask(SESSIONS));
    this.sessions = sessions.edges.map(({ node }) => node);
    return { ...sessions, sessions: this.sessions };
  }

  // Fetches the newest messages of a conversation.
  async open(conversationId) {
    this.conversationId = conversationId;
    this.messages = [];
    await this.older(null);
  }

  // Fetches the messages before the fetched ones.
  async older(before = this.before) {
    const { conversationId } = this;
    const { messages } = await trying(() => this.#client.ask(MESSAGES, { conversationId, before }));
    if (conversationId !== this.conversationId) return; // the user has opened another conversation
    this.messages = [...messages?.edges.map(({ node }) => node) ?? [], ...this.messages]; // null before the first message
    this.before = messages?.pageInfo.startCursor;
    this.hasOlder = messages?.pageInfo.hasPreviousPage ?? false;
  }
}

// Call it once, after sign-in. Returns a function that stops.
export async function startPlain({ ask, listen }, pages, chat) {
  return keepInSync({
    chat,
    page: await pages.list(),
    sync: async (since) => (await trying(() => ask(SYNC, { since }))).syncSessions,
    sessionEvents: (since, take) => listen(SESSION_EVENTS, { since }, ({ syncSession }) => take(syncSession)),
    messageEvents: (since, take) => listen(MESSAGE_EVENTS, { since }, ({ messageEvents }) => take(messageEvents)),
    async refetch() {
      await pages.list();
      if (pages.conversationId) await pages.open(pages.conversationId);
    },
  });
}
