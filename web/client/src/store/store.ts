/**
 * One copy of each session and message, from all answers and events.
 *
 * Guarantees: older data never replaces newer data, and applying the same data again changes nothing. Sessions are compared by
 * activeTs, messages by recall and editCount, and otherwise an answer does not replace the data of an event after the request began.
 * The events of one conversation come from one subscription, in order.
 */
import type { ReceiptStatus } from "../gql";
import type { ConfabError, Message, Session, SessionCategory, SessionFilter, SessionList, Thread } from "../types";
import { Timeline, type PageInfo, type Position, type TimelineItem } from "./timeline";
import { Topics } from "./view";

export const SESSIONS = "sessions";
/** Histories of all conversations were dropped. */
export const DROPPED = "dropped";
export const sessionTopic = (conversationId: string) => `session ${conversationId}`;
export const historyTopic = (conversationId: string) => `history ${conversationId}`;

/** Histories that are not displayed, and keep their newest messages. */
const MAX_CLOSED = 30;

const isOlder = (one: Message, other: Message) =>
  one.state === other.state ? one.editCount < other.editCount : other.state === "RECALLED";

export class Store {
  readonly topics = new Topics();
  readonly #sessions = new Map<string, Session>();
  readonly #messages = new Map<string, Message>();
  /** Conversations of which the user has no session. */
  readonly #withoutSession = new Set<string>();
  #events = 0;
  /** The number of the event that last changed each message. */
  readonly #changedAt = new Map<string, number>();
  /** Users that the user has blocked or unblocked, and the number of the event. */
  readonly #blocks = new Map<string, { isBlocked: boolean; at: number }>();
  /** How often the histories of each conversation, and of all, were dropped. */
  readonly #drops = new Map<string, number>();
  #dropsOfAll = 0;
  readonly timelines = new Map<string, Timeline>();
  #totalUnread = 0;
  #totalAt = 0;
  /** Each returns the ids of messages that are displayed outside histories. */
  readonly keepers = new Set<() => readonly string[]>();
  /** Messages that the last removal has found unused. */
  #unused = new Set<string>();
  /** The errors of conversations whose history cannot be read. */
  readonly refusals = new Map<string, ConfabError>();
  status: SessionList["status"] = "loading";
  error: ConfabError | undefined;

  /** The number of events so far. Pass the number at the time of a request as requestedAt with its answer. */
  eventCount(): number {
    return this.#events;
  }

  /** Returns the number of an event that arrives now. */
  nextEvent(): number {
    return ++this.#events;
  }

  setStatus(status: SessionList["status"], error?: ConfabError): void {
    this.status = status;
    this.error = error;
    this.topics.changed(SESSIONS);
  }

  /** requestedAt: when the request began; without it this is an event. Returns false if an event came later, and the total stays. */
  setTotal(total: number, requestedAt?: number): boolean {
    if (requestedAt !== undefined && this.#totalAt > requestedAt) return false;
    if (requestedAt === undefined) this.#totalAt = ++this.#events;
    this.#totalUnread = total;
    this.topics.changed(SESSIONS);
    return true;
  }

  /** Undefined if it is not known; null if there is none. */
  session(conversationId: string): Session | null | undefined {
    return this.#sessions.get(conversationId) ?? (this.#withoutSession.has(conversationId) ? null : undefined);
  }

  setNoSession(conversationId: string): void {
    this.#withoutSession.add(conversationId);
    this.topics.changed(sessionTopic(conversationId));
  }

  /** force: apply the server's data even if its clock went back. */
  applySessions(sessions: readonly Session[], force = false): void {
    for (const session of sessions) {
      const id = session.conversation.id;
      this.#withoutSession.delete(id);
      const held = this.#sessions.get(id);
      if (held && held.activeTs > session.activeTs && !force) continue;
      // These positions change without a change of activeTs. They only grow.
      const writeSeq = Math.max(session.writeSeq, held?.writeSeq ?? 0);
      const peerDeliveredSeq = session.peerDeliveredSeq == null ? null : Math.max(session.peerDeliveredSeq, held?.peerDeliveredSeq ?? 0);
      const peerReadSeq = session.peerReadSeq == null ? null : Math.max(session.peerReadSeq, held?.peerReadSeq ?? 0);
      this.#sessions.set(id, { ...session, writeSeq, peerDeliveredSeq, peerReadSeq });
      if (held?.lastMessage) this.#patchLastDelivery(id, held.lastMessage.id, held.lastMessage.delivery);
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
    for (const id of [...this.#withoutSession]) {
      this.#withoutSession.delete(id);
      this.topics.changed(sessionTopic(id));
    }
    this.topics.changed(SESSIONS);
  }

  /** As the query sessionCategories, when all sessions are loaded. */
  listCategories(): SessionCategory[] {
    const categories = new Map<string, SessionCategory & { writeTs: number }>();
    for (const { categoryId, status, muteStatus, unreadCount, writeTs } of this.#sessions.values()) {
      if (!categoryId || status !== "ACTIVE") continue;
      const sums = categories.get(categoryId) ?? { sessionCount: 0, unreadCount: 0, writeTs: 0 };
      const counted = { sessionCount: sums.sessionCount + 1, unreadCount: sums.unreadCount + (muteStatus ? 0 : unreadCount) };
      categories.set(categoryId, { categoryId, ...counted, writeTs: Math.max(sums.writeTs, writeTs) });
    }
    const sorted = [...categories.values()].sort((a, b) => b.writeTs - a.writeTs || (a.categoryId < b.categoryId ? -1 : 1));
    return sorted.map(({ categoryId, sessionCount, unreadCount }) => ({ categoryId, sessionCount, unreadCount }));
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

  /** requestedAt: when the request began; without it this is an event. */
  applyMessages(messages: readonly Message[], requestedAt?: number): void {
    for (const message of messages) {
      const held = this.#messages.get(message.id);
      if (held && isOlder(message, held)) continue;
      const eventWasLater = held && requestedAt !== undefined && (this.#changedAt.get(message.id) ?? 0) > requestedAt;
      if (eventWasLater && !isOlder(held, message)) continue;
      const delivery = laterDelivery(held?.delivery, message.delivery);
      if (requestedAt === undefined) this.#changedAt.set(message.id, ++this.#events);
      const block = this.#blocks.get(message.sender.id);
      const isFromBlocked = block && requestedAt !== undefined && block.at > requestedAt ? block.isBlocked : message.isFromBlocked;
      this.#messages.set(message.id, { ...message, thread: message.thread ?? held?.thread ?? null, delivery, isFromBlocked });
      const session = this.#sessions.get(message.conversationId);
      if (session?.lastMessage?.id === message.id) {
        const { content, state, editCount } = message;
        this.patchSession(message.conversationId, { lastMessage: { ...session.lastMessage, content, state, editCount, delivery } });
      }
    }
    for (const id of new Set(messages.map(({ conversationId }) => conversationId))) this.topics.changed(historyTopic(id));
  }

  /** Applies an event about one part of a message. Does nothing if the message is not in the store. */
  patchMessage(id: string, change: Partial<Message>): void {
    const held = this.#messages.get(id);
    if (!held) return;
    this.#changedAt.set(id, ++this.#events);
    this.#messages.set(id, { ...held, ...change });
    this.topics.changed(historyTopic(held.conversationId));
  }

  /** Applies an event about a thread, to its first message and to its session. */
  applyThread(parentId: string, thread: Thread): void {
    this.patchMessage(parentId, { thread });
    this.patchThreadSession(thread);
  }

  patchThreadSession({ id, ...change }: Partial<Thread> & { id: string }): void {
    const session = this.#sessions.get(id);
    if (session) this.patchSession(id, { conversation: { ...session.conversation, ...change } as Session["conversation"] });
  }

  /** The user has blocked or unblocked a user. */
  setBlocked(userId: string, isBlocked: boolean): void {
    this.#blocks.set(userId, { isBlocked, at: ++this.#events });
    const changed = [...this.#messages.values()].filter(({ sender, isFromBlocked }) => sender.id === userId && isFromBlocked !== isBlocked);
    for (const message of changed) this.#messages.set(message.id, { ...message, isFromBlocked: isBlocked });
    for (const id of new Set(changed.map(({ conversationId }) => conversationId))) this.topics.changed(historyTopic(id));
  }

  /** Delivery states of the user's messages in a private conversation: the other person has received or read everything up to seq. */
  applyReceipt(conversationId: string, me: string, status: ReceiptStatus, seq: number): void {
    const delivery = { status, recipientCount: 1, deliveredCount: 1, readCount: status === "READ" ? 1 : 0 };
    for (const item of this.timelines.get(conversationId)?.lists().flat() ?? []) {
      const held = item.seq <= seq ? this.#messages.get(item.id) : undefined;
      const id = item.id;
      if (held?.delivery && held.sender.id === me) this.#messages.set(id, { ...held, delivery: laterDelivery(held.delivery, delivery) });
    }
    this.topics.changed(historyTopic(conversationId));
    const last = this.#sessions.get(conversationId)?.lastMessage;
    if (last && last.seq <= seq && last.sender.id === me) this.#patchLastDelivery(conversationId, last.id, delivery);
  }

  /** Applies the delivery state of a message to the session whose last message it is. */
  #patchLastDelivery(conversationId: string, messageId: string, given: Message["delivery"]): void {
    const last = this.#sessions.get(conversationId)?.lastMessage;
    if (!given || !last?.delivery || last.id !== messageId) return;
    const delivery = laterDelivery(last.delivery, given)!;
    if (delivery.deliveredCount === last.delivery.deliveredCount && delivery.readCount === last.delivery.readCount) return;
    this.patchSession(conversationId, { lastMessage: { ...last, delivery } });
  }

  /** The first seqs of pages of this size with messages after a seq whose ticks may still change, the newest page first. */
  incompleteTicks(conversationId: string, after: number, pageSize: number): number[] {
    const isIncomplete = ({ id, seq }: TimelineItem) => {
      const delivery = seq > after && this.#messages.get(id)?.delivery;
      return !!delivery && delivery.status !== "READ";
    };
    const pages: number[] = [];
    for (const items of this.timelines.get(conversationId)?.lists() ?? []) {
      for (let end = items.length; end > 0; end -= pageSize) {
        const page = items.slice(Math.max(0, end - pageSize), end);
        const incomplete = page.find(isIncomplete);
        if (incomplete) pages.push(incomplete.seq);
      }
    }
    return pages.sort((a, b) => b - a);
  }

  applyDelivery(conversationId: string, of: readonly Pick<Message, "id" | "delivery">[]): void {
    for (const { id, delivery } of of) {
      const held = this.#messages.get(id);
      if (held) this.#messages.set(id, { ...held, delivery: laterDelivery(held.delivery, delivery) });
      this.#patchLastDelivery(conversationId, id, delivery);
    }
    this.topics.changed(historyTopic(conversationId));
  }

  /** Drops a history that the user may not read, and keeps the error. */
  setRefusal(conversationId: string, error: ConfabError): void {
    this.refusals.set(conversationId, error);
    this.dropHistories([conversationId]);
  }

  clearRefusal(conversationId: string): void {
    if (this.refusals.delete(conversationId)) this.topics.changed(historyTopic(conversationId));
  }

  timeline(conversationId: string): Timeline {
    const timeline = this.timelines.get(conversationId) ?? new Timeline();
    this.timelines.set(conversationId, timeline);
    return timeline;
  }

  /** This history is no longer displayed. */
  closeHistory(conversationId: string): void {
    const timeline = this.timeline(conversationId);
    timeline.prune();
    this.timelines.delete(conversationId);
    this.timelines.set(conversationId, timeline); // Now it is the one that was opened last.
    this.topics.changed(historyTopic(conversationId));
  }

  /** Returns false if the page must be requested again. */
  applyPage(conversationId: string, messages: readonly Message[], info: PageInfo, position: Position, requestedAt: number, liveCount?: number): boolean {
    const timeline = this.timeline(conversationId);
    if (!timeline.add(messages, info, position, liveCount)) return false;
    timeline.prune();
    this.applyMessages(messages, requestedAt);
    this.topics.changed(historyTopic(conversationId));
    return true;
  }

  /** A live message. It is kept only if its conversation has been opened. */
  addLiveMessage(message: Message): void {
    const timeline = this.timelines.get(message.conversationId);
    if (!timeline) return;
    timeline.addLive(message);
    this.applyMessages([message]);
  }

  /**
   * Removes messages that were also unused the last time: the answer that displays them may not have arrived yet. Of the histories that
   * are not displayed, those opened last keep their newest messages.
   */
  removeUnused(): void {
    const closed = [...this.timelines].filter(([, timeline]) => !timeline.viewers.size && timeline.newest());
    for (const [id, timeline] of closed.slice(0, -MAX_CLOSED)) {
      timeline.clear();
      this.topics.changed(historyTopic(id));
    }
    const used = new Set([...this.keepers].flatMap((keeper) => keeper()));
    for (const timeline of this.timelines.values()) for (const { id } of timeline.lists().flat()) used.add(id);
    const unused = [...this.#messages.keys()].filter((id) => !used.has(id));
    for (const id of unused.filter((each) => this.#unused.has(each))) {
      this.#messages.delete(id);
      this.#changedAt.delete(id);
    }
    this.#unused = new Set(unused);
  }

  /** Forgets histories that may have gaps: of these conversations, or all. */
  dropHistories(of?: readonly string[]): void {
    if (of) for (const id of of) this.#drops.set(id, (this.#drops.get(id) ?? 0) + 1);
    else this.#dropsOfAll += 1;
    for (const id of of ?? [...this.timelines.keys()]) {
      this.timelines.get(id)?.clear();
      this.topics.changed(historyTopic(id));
    }
    if (!of) this.topics.changed(DROPPED);
  }

  /** Grows when the histories of a conversation are dropped: data that was requested before may have gaps. */
  versionOf(conversationId: string): number {
    return this.#dropsOfAll + (this.#drops.get(conversationId) ?? 0);
  }
}

/** The counts only grow. */
const laterDelivery = (held: Message["delivery"] | undefined, given: Message["delivery"] | undefined) =>
  held && given && (held.readCount > given.readCount || held.deliveredCount > given.deliveredCount) ? held : (given ?? held ?? null);
