import { privateConversationId } from "./ids.mjs";

// Not crypto.randomUUID: browsers have it on https and localhost only.
export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

// Messages that are being sent, or could not be sent. Show them after the conversation, with `failure` (null or an error).
// send(input) returns a promise of the stored message, and stores a message once, however often it is called with the same key.
// changed: called after each change.
export class Outbox {
  #me;
  #send;
  #changed;
  #items = [];
  #queues = new Map(); // conversation id -> promise of the message that was sent last

  constructor(me, send, changed) {
    this.#me = me;
    this.#send = send;
    this.#changed = changed;
  }

  get items() {
    return this.#items;
  }

  in(conversationId) {
    return this.#items.filter((item) => item.conversationId === conversationId);
  }

  // Returns a promise of the stored message; of null if it was not stored.
  send(message) {
    const input = { ...message, idempotencyKey: newKey() };
    const item = { ...pendingMessage(this.#me, input), input, failure: null };
    this.#show([...this.#items, item]);
    return this.#deliver(item);
  }

  // With the same key: if an earlier attempt stored the message, it is not stored again.
  retry(id) {
    const item = this.#items.find((each) => each.id === id && each.failure);
    if (!item) return Promise.resolve(null);
    this.#replace(id, { failure: null });
    return this.#deliver(item);
  }

  discard(id) {
    this.#show(this.#items.filter((item) => item.id !== id || !item.failure));
  }

  // An event may prove that a message was stored although its answer was lost.
  onEvent({ __typename, message }) {
    if (__typename === "MessageCreated" && message.idempotencyKey) this.#remove(message.idempotencyKey);
  }

  // Messages of one conversation are sent one after the other, in the order they were written.
  #deliver({ id, conversationId, input }) {
    const delivered = (this.#queues.get(conversationId) ?? Promise.resolve()).then(async () => {
      try {
        const message = await this.#send(input);
        this.#remove(id);
        return message;
      } catch (failure) {
        this.#replace(id, { failure });
        return null;
      }
    });
    this.#queues.set(conversationId, delivered);
    return delivered;
  }

  #remove(id) {
    if (this.#items.some((item) => item.id === id)) this.#show(this.#items.filter((item) => item.id !== id));
  }

  #replace(id, changes) {
    this.#show(this.#items.map((item) => (item.id === id ? { ...item, ...changes } : item)));
  }

  #show(items) {
    this.#items = items;
    this.#changed();
  }
}

// The placeholder of a message until the server has stored it. A first message to a person has no conversation yet: its id is known.
function pendingMessage(me, { conversationId, toUserId, subBiz, content, idempotencyKey }) {
  return {
    id: idempotencyKey, idempotencyKey, conversationId: conversationId ?? privateConversationId(me.id, toUserId, subBiz), content,
    seq: Number.MAX_SAFE_INTEGER, contentType: "TEXT", state: "NORMAL", createdAt: new Date().toISOString(), editCount: 0, sender: me,
  };
}
