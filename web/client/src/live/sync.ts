/**
 * Synchronisation: the first screen, and then the session list and all private conversations and groups.
 *
 * Guarantees: continues from exactly where the first screen ends. Missed events arrive first, in order. Every received message is
 * acknowledged as delivered, and the sessions that it changed are fetched. A reset starts over.
 */
import { backoff } from "../connection/backoff";
import type { Connection } from "../connection/connection";
import { stoppedError } from "../errors";
import { AckDelivered, MessageEvents, OfflineQueue, Ready, SyncSession, SyncSessions, Ticks, type MessageEventsSubscription, type ReadyQuery } from "../gql";
import type { Store } from "../store/store";
import type { ConfabError, LiveEvent, Message, User } from "../types";
import { startTimers, startWaiters } from "../waiting";
import { isChannelOrThread } from "./channelFeeds";
import type { Typing } from "./typing";
import type { Workspaces } from "./workspaces";

const BATCH_MS = 50;
const RETRY_MS = 2_000;
const TICKS_EVERY_MS = 400;
const TICKS_PAGE = 100;
/** The newest pages; older ticks are rarely on the screen. */
const MAX_TICKS_PAGES = 4;
const RETRY_REFUSED_MS = 30_000;
/** Limit of ackManyDelivered. */
const MAX_MARKS = 200;
const STREAMS = ["sessions", "messages"] as const;

export interface Sync {
  loadScreen(): void;
  /** Resolves when the first screen is loaded: histories requested later have no gap to the events. Rejects if it is refused for good. */
  ready(): Promise<void>;
  stop(): void;
}

export interface SyncOptions {
  connection(): Connection;
  me: string;
  store: Store;
  workspaces: Workspaces;
  typing: Typing;
  /** Called for each message of an event. */
  received(message: Message): void;
  pinsChanged(message: Message): void;
  /** Called for each event that was not missed, after it was applied. */
  liveEvent(event: LiveEvent): void;
  /** Called with the profile of the user. */
  signedIn(user: User): void;
}

export function startSync({ connection, me, store, workspaces, typing, received, pinsChanged, liveEvent, signedIn }: SyncOptions): Sync {
  const api = () => connection().api;
  const stops: (() => void)[] = [];
  const timers = startTimers();
  const { later } = timers;
  let stopped = false;

  const arrived = new Map<string, number>();
  const acknowledge = (conversationId: string, seq: number, after = BATCH_MS) => {
    if (!arrived.size) later(after, () => void flush());
    arrived.set(conversationId, Math.max(seq, arrived.get(conversationId) ?? 0));
  };
  /** Returns true if all acknowledgements were sent. Failed ones are sent again. */
  const flush = async () => {
    const due = [...arrived].slice(0, MAX_MARKS);
    due.forEach(([id]) => arrived.delete(id));
    if (arrived.size) later(BATCH_MS, () => void flush());
    if (!due.length) return true;
    return send(due);
  };
  const send = async (due: readonly (readonly [string, number])[]): Promise<boolean> => {
    try {
      const marks = due.map(([conversationId, upToSeq]) => ({ conversationId, upToSeq }));
      store.applySessions((await api().request(AckDelivered, { marks })).ackManyDelivered);
      return true;
    } catch (error) {
      if ((error as ConfabError).isRetryable) due.forEach(([id, seq]) => acknowledge(id, seq, RETRY_MS));
      // The server refuses all if one is refused.
      else if (due.length > 1) return (await Promise.all(due.map((each) => send([each])))).some(Boolean);
      return false;
    }
  };

  let pulledTo: string | undefined;
  let resets = 0;
  let isPullDue = false;
  let requests = 0;
  /** The request whose answer has the newest total. */
  let totalOf = 0;
  /** Fetches the sessions that have changed since the last time; the first time all of them. */
  const pull = (after = BATCH_MS) => {
    if (isPullDue) return;
    isPullDue = true;
    later(after, async () => {
      isPullDue = false;
      try {
        for (let more = true; more && !stopped; ) {
          const [requestedAt, resetsBefore, number] = [store.eventCount(), resets, ++requests];
          const { sessions, cursor, hasMore, totalUnread } = (await api().request(SyncSessions, { since: pulledTo })).syncSessions;
          if (resets !== resetsBefore) continue; // The whole list is due.
          pulledTo = cursor;
          more = hasMore;
          store.applySessions(sessions);
          if (number < totalOf) continue; // Answers may overtake each other.
          totalOf = number;
          // An event came meanwhile, and its total may be older than this one.
          if (!store.setTotal(totalUnread, requestedAt)) pull();
        }
      } catch (error) {
        if ((error as ConfabError).isRetryable) pull(RETRY_MS);
      }
    });
  };

  /** The offline queue has the messages that arrived while no device was connected. Acknowledging removes them. */
  const emptyQueue = async () => {
    try {
      for (let more = true; more && !stopped; ) {
        const { edges, pageInfo } = (await api().request(OfflineQueue, {})).offlineMessages;
        for (const { node } of edges) acknowledge(node.conversationId, node.seq);
        more = pageInfo.hasNextPage && (await flush());
      }
    } catch (error) {
      if ((error as ConfabError).isRetryable) later(RETRY_MS, () => void emptyQueue());
    }
  };

  /** In a group a tick counts people, so it does not follow from one person's receipt. */
  const ticking = new Map<string, number>();
  /** The last receipts, by conversation, user and status. */
  const receipts = new Map<string, number>();
  /** after: the ticks of messages up to this seq have not changed. */
  const refreshTicks = (conversationId: string, after: number) => {
    const due = ticking.get(conversationId);
    ticking.set(conversationId, Math.min(after, due ?? after));
    if (due !== undefined) return;
    later(TICKS_EVERY_MS, () => {
      const since = ticking.get(conversationId)!;
      ticking.delete(conversationId);
      const again = (error: ConfabError) => void (error.isRetryable && later(RETRY_MS, () => refreshTicks(conversationId, since)));
      const apply = (nodes: readonly { node: Pick<Message, "id" | "delivery"> }[]) => store.applyDelivery(conversationId, nodes.map(({ node }) => node));
      for (const fromSeq of store.incompleteTicks(conversationId, since, TICKS_PAGE).slice(0, MAX_TICKS_PAGES)) {
        api().request(Ticks, { conversationId, fromSeq }).then(({ messages }) => apply(messages?.edges ?? []), again);
      }
    });
  };

  /** Followed threads are here as well, for their sessions. Their messages are in the thread's own events (channelFeeds.ts). */
  const apply = (event: MessageEventsSubscription["messageEvents"]) => {
    switch (event.__typename) {
      case "MessageCreated": {
        const { conversationId, seq, sender } = event.message;
        pull();
        if (sender.id !== me) acknowledge(conversationId, seq);
        if (isChannelOrThread(conversationId)) return;
        typing.stopped(conversationId, sender.id);
        store.addLiveMessage(event.message);
        return received(event.message);
      }
      case "Mentioned":
        return workspaces.pullChannels();
      case "TypingStarted":
        return typing.started(event.conversationId, event.user);
      case "TypingStopped":
        return typing.stopped(event.conversationId, event.user.id);
      case "MessageUpdated":
      case "MessageRecalled":
        return isChannelOrThread(event.message.conversationId) ? pull() : store.applyMessages([event.message]);
      case "ReactionsChanged":
        return isChannelOrThread(event.conversationId) ? undefined : store.patchMessage(event.messageId, { reactions: event.reactions });
      case "PinsChanged":
        return isChannelOrThread(event.conversationId) ? undefined : pinsChanged(event.message);
      case "ThreadChanged":
        return store.applyThread(event.parentId, event.thread);
      case "GroupChanged": {
        const session = store.session(event.group.id);
        if (session) store.patchSession(event.group.id, { conversation: { ...session.conversation, ...event.group } as typeof session.conversation });
        return;
      }
      case "ReceiptAdvanced": {
        const session = store.session(event.conversationId);
        if (event.user.id === me) return;
        if (session?.conversation.__typename === "Group") {
          const name = `${event.conversationId} ${event.user.id} ${event.status}`;
          const before = receipts.get(name) ?? 0;
          receipts.set(name, Math.max(before, event.seq));
          return refreshTicks(event.conversationId, before);
        }
        store.applyReceipt(event.conversationId, me, event.status, event.seq);
        if (session?.peerReadSeq == null) return;
        const peerDeliveredSeq = Math.max(event.seq, session.peerDeliveredSeq ?? 0);
        const peerReadSeq = event.status === "READ" ? Math.max(event.seq, session.peerReadSeq) : session.peerReadSeq;
        return void store.patchSession(event.conversationId, { peerDeliveredSeq, peerReadSeq });
      }
      case "CaughtUp":
        if (event.reset) {
          store.dropHistories();
          void emptyQueue();
        }
        pull();
        connection().caughtUp("messages", event.reset);
    }
  };

  /** Missed events arrive first, then CaughtUp. */
  const followMessages = (cursor: string) => {
    let since = cursor;
    let isCaughtUp = false;
    const variables = () => {
      isCaughtUp = false;
      return { since };
    };
    const next = (event: MessageEventsSubscription["messageEvents"]) => {
      if ("cursor" in event) since = event.cursor;
      apply(event);
      if (event.__typename === "CaughtUp") isCaughtUp = true;
      else if (isCaughtUp) liveEvent(event);
    };
    return connection().api.subscribe(MessageEvents, variables, { next: ({ messageEvents }) => next(messageEvents) });
  };

  /** True while the parts of a reset arrive. */
  let inReset = false;
  const follow = ({ cursor: since, workspaces: found }: ReadyQuery["ready"]) => {
    connection().ready([...STREAMS, ...found.map(({ id }) => id)]);
    workspaces.follow(found, since);
    stops.push(
      connection().api.subscribe(SyncSession, { since }, {
        next: ({ syncSession: { sessions, totalUnread, reason, reset, hasMore } }) => {
          const beginsReset = reset && !inReset;
          if (beginsReset) {
            pulledTo = undefined; // The whole list is fetched again.
            resets += 1;
          }
          if (beginsReset) store.dropSessionsExcept(sessions);
          store.applySessions(sessions, reset || inReset);
          inReset = (reset || inReset) && hasMore;
          store.setTotal(totalUnread);
          // A user who rejoins a group may be able to read messages from the time in between, which had no events for them.
          if (reason === "MEMBERSHIP") store.dropHistories(sessions.map(({ conversation }) => conversation.id));
          if (reason !== "CATCH_UP" || hasMore) return;
          connection().caughtUp("sessions", reset);
          workspaces.pullChannels();
        },
      }),
      followMessages(since),
    );
    void emptyQueue();
    pull();
  };

  const firstScreen = startWaiters();
  let loading = false;
  const loadScreen = async () => {
    if (loading || stopped || store.status === "ready") return;
    loading = true;
    for (let tries = 0; !stopped && loading; tries++) {
      try {
        const { ready } = await api().request(Ready, {});
        if (stopped) return;
        const { me: user, sessions, attention } = ready;
        signedIn(user);
        store.applySessions(sessions.edges.map(({ node }) => node));
        store.setTotal(attention.unread);
        store.setStatus("ready");
        follow(ready);
        firstScreen.settle();
        loading = false;
      } catch (error) {
        const refusal = error as ConfabError;
        if (!refusal.isRetryable) {
          loading = false;
          store.setStatus("failed", refusal);
          firstScreen.settle(refusal);
          later(RETRY_REFUSED_MS, () => void loadScreen());
        } else await new Promise((resolve) => setTimeout(resolve, Math.max(refusal.retryAfterMs, backoff(tries))));
      }
    }
  };

  return {
    loadScreen: () => void loadScreen(),
    ready: () => {
      if (store.status === "ready") return Promise.resolve();
      if (store.error) return Promise.reject(store.error);
      return firstScreen.wait();
    },
    stop: () => {
      stopped = true;
      firstScreen.settle(stoppedError());
      stops.forEach((stop) => stop());
      timers.stop();
    },
  };
}
