import { trying } from "./errors.mjs";
import { MESSAGES, MESSAGE_EVENTS, SEND, SESSIONS, SESSION_EVENTS, SYNC } from "./operations.mjs";
import { openSocket, resuming } from "./socket.mjs";
import { asShown, inOrder, keepInSync, pendingMessage } from "./sync.mjs";

export function plainClient({ url, token, socket = openSocket({ url, token }) }) {
  const live = resuming(socket);

  async function ask(query, variables) {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/graphql-response+json",
        authorization: `Bearer ${await token()}`,
      },
      body: JSON.stringify({ query, variables }),
    });
    const { data, errors } = await response.json();
    if (errors) throw Object.assign(new Error(errors[0].message), { errors });
    return data;
  }

  function listen(query, variables, take) {
    return live.subscribe({ query, variables }, {
      next: ({ data, errors }) => (errors ? console.error(errors) : take(data)),
      error: console.error, // final: an error that is not retryable, or a close code after which a retry cannot help
      complete() {},
    });
  }

  return { ask, listen, close: () => socket.dispose() };
}

export class Chat {
  sessions = new Map(); // id -> session
  messages = new Map(); // id -> message
  totalUnread = 0;

  // me: { id, displayName }. changed: called after each change, to display it.
  constructor(client, me, changed = () => {}) {
    this.client = client;
    this.me = me;
    this.changed = changed;
  }

  get list() {
    return asShown([...this.sessions.values()]);
  }

  history(conversationId) {
    return inOrder([...this.messages.values()].filter((message) => message.conversationId === conversationId));
  }

  async start() {
    const { sessions: page } = await this.client.ask(SESSIONS);
    this.show.sessions({ ...page, sessions: page.edges.map(({ node }) => node) });
    const { ask, listen } = this.client;
    this.stop = keepInSync({
      since: page.cursor,
      sync: async (since) => (await trying(() => ask(SYNC, { since }))).syncSessions,
      sessionEvents: (since, take) => listen(SESSION_EVENTS, { since }, ({ syncSession }) => take(syncSession)),
      messageEvents: (since, take) => listen(MESSAGE_EVENTS, { since }, ({ messageEvents }) => take(messageEvents)),
      show: this.show,
    });
  }

  show = {
    sessions: ({ sessions, totalUnread, reset }) => {
      if (reset) this.sessions.clear();
      for (const session of sessions) this.sessions.set(session.id, session);
      this.totalUnread = totalUnread;
      this.changed();
    },
    event: ({ message, reset }) => {
      if (message) this.messages.set(message.id, message);
      if (reset) {
        this.messages.clear();
        if (this.opened) this.open(this.opened).catch(console.error);
      }
      this.changed();
    },
  };

  // Loads the newest messages, or those before a cursor. Returns the cursor of the oldest; null if it is the first message.
  async open(conversationId, before = null) {
    this.opened = conversationId;
    const { messages } = await trying(() => this.client.ask(MESSAGES, { conversationId, before }));
    for (const { node } of messages.edges) this.messages.set(node.id, node);
    this.changed();
    return messages.pageInfo.hasPreviousPage ? messages.pageInfo.startCursor : null;
  }

  // Stored exactly once, however many attempts it takes: the key belongs to the message, not to the attempt.
  async send(input) {
    const idempotencyKey = crypto.randomUUID();
    this.messages.set(idempotencyKey, pendingMessage(this.me, { ...input, idempotencyKey }));
    this.changed();
    try {
      const { sendMessage } = await trying(() => this.client.ask(SEND, { input: { ...input, idempotencyKey } }));
      this.messages.set(sendMessage.message.id, sendMessage.message);
      return sendMessage.message;
    } finally {
      this.messages.delete(idempotencyKey);
      this.changed();
    }
  }
}
