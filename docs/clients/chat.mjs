import { privateConversationId } from "./ids.mjs";
import { Outbox } from "./outbox.mjs";
import { Receipts } from "./receipts.mjs";
import { asShown, inOrder } from "./sync.mjs";
import { Typing } from "./typing.mjs";

// The live state and the actions of one signed-in user, with any library. me: { id, displayName }. act(name, variables) executes
// a mutation of operations.mjs, and returns a promise of its answer. In React: useSyncExternalStore(chat.subscribe, chat.version).
export class Chat {
  #sessions = new Map(); // changed since the start
  #messages = new Map(); // arrived since the start
  #revised = new Map(); // edited or recalled since the start
  #listeners = new Set();
  #version = 0;
  totalUnread = 0;

  constructor(me, act) {
    const changed = () => this.#changed();
    this.me = me;
    this.act = act;
    this.typing = new Typing(act, changed);
    this.receipts = new Receipts(act);
    this.outbox = new Outbox(me, async (input) => {
      const { message } = await act("sendMessage", { input });
      this.#messages.set(message.id, message);
      return message;
    }, changed);
  }

  version = () => this.#version;

  subscribe = (listener) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  // The session list in display order. loaded: the sessions of the pages that your library has.
  list(loaded) {
    return asShown([...loaded, ...this.#sessions.values()]);
  }

  // A conversation in display order: loaded messages, those that arrived, those of the outbox (they have `input` and `failure`).
  history(conversationId, loaded) {
    const arrived = [...this.#messages.values()].filter((message) => message.conversationId === conversationId);
    const stored = [...arrived, ...loaded].map((message) => this.#revised.get(message.id) ?? message);
    return inOrder([...stored, ...this.outbox.in(conversationId)]);
  }

  // The conversation with a person, also before its first message.
  conversationWith(userId) {
    return privateConversationId(this.me.id, userId);
  }

  // message: { conversationId, content }, or { toUserId, content } for a first message.
  send(message) {
    this.typing.forget(message.conversationId ?? this.conversationWith(message.toUserId));
    return this.outbox.send(message);
  }

  // keepInSync calls these.
  onSessions({ sessions, totalUnread, reset }) {
    if (reset) this.#sessions.clear();
    for (const session of sessions) this.#sessions.set(session.id, session);
    this.totalUnread = totalUnread;
    this.receipts.onSessions(sessions);
    this.#changed();
  }

  onEvent(event) {
    const { __typename, message, reset } = event;
    if (__typename === "MessageCreated") this.#messages.set(message.id, message);
    if (__typename === "MessageUpdated" || __typename === "MessageRecalled") this.#revised.set(message.id, message);
    if (reset) { // some were missed: keepInSync fetches the displayed ones again
      this.#messages.clear();
      this.#revised.clear();
    }
    this.outbox.onEvent(event);
    this.typing.onEvent(event);
    this.#changed();
  }

  #changed() {
    this.#version += 1;
    for (const listener of this.#listeners) listener();
  }
}
