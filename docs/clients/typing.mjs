const REPEAT = 3_000; // the server passes on one signal in this time
const IDLE = 5_000; // without a key press, typing has ended
const SHOWN = 8_000; // a signal is shown for this time at most

// Signals that this user is typing, and keeps which others are. changed: called after each change.
export class Typing {
  #act;
  #changed;
  #sent = new Map(); // conversation id -> when the last signal was sent
  #idle = new Map(); // conversation id -> timer
  #shown = new Map(); // conversation id -> (user id -> { user, timer })

  constructor(act, changed) {
    this.#act = act;
    this.#changed = changed;
  }

  // The other users who are typing.
  in(conversationId) {
    return [...(this.#shown.get(conversationId)?.values() ?? [])].map(({ user }) => user);
  }

  // Call it at each key press in the input field.
  pressed(conversationId) {
    clearTimeout(this.#idle.get(conversationId));
    this.#idle.set(conversationId, setTimeout(() => this.stopped(conversationId), IDLE));
    if (Date.now() - (this.#sent.get(conversationId) ?? 0) < REPEAT) return;
    this.#sent.set(conversationId, Date.now());
    this.#act("startTyping", { conversationId }).catch(() => {}); // the next key press repeats it
  }

  // Call it when the field was emptied.
  stopped(conversationId) {
    if (this.forget(conversationId)) this.#act("stopTyping", { conversationId }).catch(() => {}); // others hide it by themselves
  }

  // Call it when the message was sent, which ends typing for others. Returns whether a signal was sent before.
  forget(conversationId) {
    clearTimeout(this.#idle.get(conversationId));
    this.#idle.delete(conversationId);
    return this.#sent.delete(conversationId);
  }

  onEvent({ __typename, conversationId, user, message }) {
    if (__typename === "TypingStarted") this.#show(conversationId, user);
    if (__typename === "TypingStopped") this.#hide(conversationId, user.id);
    if (__typename === "MessageCreated") this.#hide(message.conversationId, message.sender.id);
  }

  #show(conversationId, user) {
    const typists = this.#shown.get(conversationId) ?? new Map();
    clearTimeout(typists.get(user.id)?.timer);
    typists.set(user.id, { user, timer: setTimeout(() => this.#hide(conversationId, user.id), SHOWN) });
    this.#shown.set(conversationId, typists);
    this.#changed();
  }

  #hide(conversationId, userId) {
    const typists = this.#shown.get(conversationId);
    clearTimeout(typists?.get(userId)?.timer);
    if (typists?.delete(userId)) this.#changed();
  }
}
