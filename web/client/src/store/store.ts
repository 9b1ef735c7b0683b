/**
 * One copy of each session and message, from all answers and events.
 *
 * Guarantees: older data never replaces newer data, and applying the same data again changes nothing. Sessions are compared by
 * activeTs, messages by recall and editCount, and otherwise an answer does not replace what an event said after the request began.
 * The events of one conversation come from one subscription, in order.
 */
import type { ReceiptStatus } from "../gql";
import type { Message, Session, SessionFilter, SessionList, ConfabError } from "../types";
import { Timeline, type PageInfo, type Position } from "./timeline";
import { Topics } from "./view";

export const SESSIONS = "sessions";
export const sessionTopic = (conversationId: string) => `session ${conversationId}`;
export const historyTopic = (conversationId: string) => `history ${conversationId}`;

const isOlder = (one: Message, other: Message) =>
  one.state === other.state ? one.editCount < other.editCount : other.state === "RECALLED";

export class Store {
  readonly topics = new Topics();
  readonly #sessions = new Map<string, Session>();
  readonly #messages = new Map<string, Message>();
  /** Counts events. #changedAt has the event that last changed each message. */
  #time = 0;
  readonly #changedAt = new Map<string, number>();
  readonly timelines = new Map<string, Timeline>();
  #totalUnread = 0;
  #totalAt = 0;
  /** The errors of conversations whose history cannot be read. */
  readonly refusals = new Map<string, ConfabError>();
  status: SessionList["status"] = "loading";
  error: ConfabError | undefined;

  /** The time of a request that begins now: pass it as asOf with the answer. */
  time(): number {
    return this.#time;
  }

  /** The time of an event that arrives now. */
  tick(): number {
    return ++this.#time;
  }

  setStatus(status: SessionList["status"], error?: ConfabError): void {
    this.status = status;
    this.error = error;
    this.topics.changed(SESSIONS);
  }

  /** asOf: when the request began; without it this is an event. */
  setTotal(total: number, asOf?: number): void {
    if (asOf !== undefined && this.#totalAt > asOf) return;
    if (asOf === undefined) this.#totalAt = ++this.#time;
    this.#totalUnread = total;
    this.topics.changed(SESSIONS);
  }

  session(conversationId: string): Session | undefined {
    return this.#sessions.get(conversationId);
  }

  /** force: apply the server's data even if its clock went back. */
  applySessions(sessions: readonly Session[], force = false): void {
    for (const session of sessions) {
      const id = session.conversation.id;
      const held = this.#sessions.get(id);
      if (held && held.activeTs > session.activeTs && !force) continue;
      // These positions change without a change of activeTs. They only grow.
      const writeSeq = Math.max(session.writeSeq, held?.writeSeq ?? 0);
      const peerDeliveredSeq = session.peerDeliveredSeq == null ? null : Math.max(session.peerDeliveredSeq, held?.peerDeliveredSeq ?? 0);
      const peerReadSeq = session.peerReadSeq == null ? null : Math.max(session.peerReadSeq, held?.peerReadSeq ?? 0);
      this.#sessions.set(id, { ...session, writeSeq, peerDeliveredSeq, peerReadSeq });
    }
    for (const { conversation } of sessions) this.topics.changed(sessionTopic(conversation.id));
    if (sessions.length) this.topics.changed(SESSIONS);
  }

  /** Changes a session locally. Returns a function that undoes it, except for what the server has changed since. */
  patchSession(conversationId: string, change: Partial<Session>): () => void {
    const held = this.#sessions.get(conversationId);
    if (!held) return () => {};
    const patched = { ...held, ...change };
    const put = (session: Session) => {
      this.#sessions.set(conversationId, session);
      this.topics.changed(sessionTopic(conversationId));
      this.topics.changed(SESSIONS);
    };
    put(patched);
    return () => {
      const now = this.#sessions.get(conversationId);
      if (now?.activeTs !== held.activeTs) return;
      const names = (Object.keys(change) as (keyof Session)[]).filter((name) => now[name] === patched[name]);
      put({ ...now, ...Object.fromEntries(names.map((name) => [name, held[name]])) });
    };
  }

  dropSessionsExcept(sessions: readonly Session[]): void {
    const kept = new Set(sessions.map(({ conversation }) => conversation.id));
    for (const id of [...this.#sessions.keys()].filter((each) => !kept.has(each))) {
      this.#sessions.delete(id);
      this.topics.changed(sessionTopic(id));
    }
    this.topics.changed(SESSIONS);
  }

  listSessions({ subBiz, categoryId }: SessionFilter): SessionList {
    const sessions = [...this.#sessions.values()].filter(
      (each) =>
        each.status === "ACTIVE" &&
        each.conversation.type !== "CHANNEL" &&
        (categoryId !== undefined && subBiz === undefined ? true : (each.subBiz ?? null) === (subBiz ?? null)) &&
        (categoryId === undefined || each.categoryId === categoryId),
    );
    sessions.sort((a, b) => b.priority - a.priority || b.writeTs - a.writeTs);
    return { status: this.status, sessions, totalUnread: this.#totalUnread, ...(this.error && { error: this.error }) };
  }

  message(id: string): Message | undefined {
    return this.#messages.get(id);
  }

  /** asOf: when the request began; without it this is an event. */
  applyMessages(messages: readonly Message[], asOf?: number): void {
    for (const message of messages) {
      const held = this.#messages.get(message.id);
      if (held && isOlder(message, held)) continue;
      const eventWasLater = held && asOf !== undefined && (this.#changedAt.get(message.id) ?? 0) > asOf;
      if (eventWasLater && !isOlder(held, message)) continue;
      const delivery = laterDelivery(held?.delivery, message.delivery);
      if (asOf === undefined) this.#changedAt.set(message.id, ++this.#time);
      this.#messages.set(message.id, { ...message, thread: message.thread ?? held?.thread ?? null, delivery });
      const session = this.#sessions.get(message.conversationId);
      if (session?.lastMessage?.id === message.id) {
        const { content, state, editCount } = message;
        this.patchSession(message.conversationId, { lastMessage: { ...session.lastMessage, content, state, editCount } });
      }
    }
    for (const id of new Set(messages.map(({ conversationId }) => conversationId))) this.topics.changed(historyTopic(id));
  }

  /** Applies an event about one part of a message. Does nothing if the message is not in the store. */
  patchMessage(id: string, change: Partial<Message>): void {
    const held = this.#messages.get(id);
    if (!held) return;
    this.#changedAt.set(id, ++this.#time);
    this.#messages.set(id, { ...held, ...change });
    this.topics.changed(historyTopic(held.conversationId));
  }

  /** Delivery states of the user's messages in a private conversation: the other person has received or read everything up to seq. */
  applyReceipt(conversationId: string, me: string, status: ReceiptStatus, seq: number): void {
    const delivery = { status, recipientCount: 1, deliveredCount: 1, readCount: status === "READ" ? 1 : 0 };
    for (const { id } of this.timelines.get(conversationId)?.upTo(seq) ?? []) {
      const held = this.#messages.get(id);
      if (held?.delivery && held.sender.id === me) this.#messages.set(id, { ...held, delivery: laterDelivery(held.delivery, delivery) });
    }
    this.topics.changed(historyTopic(conversationId));
  }

  applyDelivery(conversationId: string, of: readonly Pick<Message, "id" | "delivery">[]): void {
    for (const { id, delivery } of of) {
      const held = this.#messages.get(id);
      if (held) this.#messages.set(id, { ...held, delivery: laterDelivery(held.delivery, delivery) });
    }
    this.topics.changed(historyTopic(conversationId));
  }

  /** Drops a history that the user may not read, and keeps the error. */
  refuse(conversationId: string, error: ConfabError): void {
    this.refusals.set(conversationId, error);
    this.dropHistories([conversationId]);
  }

  allow(conversationId: string): void {
    if (this.refusals.delete(conversationId)) this.topics.changed(historyTopic(conversationId));
  }

  timeline(conversationId: string): Timeline {
    const timeline = this.timelines.get(conversationId) ?? new Timeline();
    this.timelines.set(conversationId, timeline);
    return timeline;
  }

  applyPage(conversationId: string, messages: readonly Message[], info: PageInfo, position: Position, asOf: number): void {
    this.timeline(conversationId).add(messages, info, position);
    this.applyMessages(messages, asOf);
    this.topics.changed(historyTopic(conversationId));
  }

  /** A live message. It is kept only if its conversation has been opened. */
  arrive(message: Message): void {
    const timeline = this.timelines.get(message.conversationId);
    if (!timeline) return;
    timeline.arrive(message);
    this.applyMessages([message]);
  }

  /** Forgets histories that may have gaps: of these conversations, or all. */
  dropHistories(of: readonly string[] = [...this.timelines.keys()]): void {
    for (const id of of) {
      this.timelines.get(id)?.clear();
      this.topics.changed(historyTopic(id));
    }
  }
}

/** The counts only grow. */
const laterDelivery = (held: Message["delivery"] | undefined, given: Message["delivery"] | undefined) =>
  held && given && (held.readCount > given.readCount || held.deliveredCount > given.deliveredCount) ? held : (given ?? held ?? null);
