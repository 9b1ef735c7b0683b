// Acknowledges that messages were delivered, and that they were read.
export class Receipts {
  #act;
  #delivered = new Map(); // conversation id -> seq
  #reading = new Map(); // conversation id -> seq

  constructor(act) {
    this.#act = act;
  }

  // Call it when the newest message of a conversation is on the screen and the page has the focus. It does nothing if there is
  // nothing to read. Returns a promise.
  async read(session, upToSeq = session.writeSeq) {
    const { id } = session.conversation;
    const isRead = session.readSeq >= upToSeq && !session.unreadStatus;
    if (isRead || this.#reading.get(id) >= upToSeq) return;
    this.#reading.set(id, upToSeq);
    try {
      await this.#act("markRead", { conversationId: id, upToSeq });
    } catch (error) {
      console.error(error); // the next call repeats it
    } finally {
      this.#reading.delete(id);
    }
  }

  // keepInSync calls it for every change of a session: messages that this device knows are delivered.
  async onSessions(sessions) {
    const marks = [];
    for (const { status, deliveredSeq, writeSeq: upToSeq, conversation: { id: conversationId } } of sessions) {
      if (status !== "ACTIVE" || upToSeq <= Math.max(deliveredSeq, this.#delivered.get(conversationId) ?? 0)) continue;
      this.#delivered.set(conversationId, upToSeq); // once for each message, so that an error is not repeated endlessly
      marks.push({ conversationId, upToSeq });
    }
    if (marks.length > 0) await this.#act("ackManyDelivered", { marks }).catch(console.error);
  }
}
