/**
 * Keeping up: the session list and all conversations of a person, as they change on any of their devices.
 *
 * Promises: starts from the newest page of sessions and follows from exactly there; what was missed comes first, in order; a reset
 * begins anew by itself. Every message that comes is acknowledged as delivered. Listeners get each live event once.
 * The cursor lives as long as the cache that it belongs to: a page that is loaded anew begins with a page of sessions.
 */
import type { Client } from "@urql/core";

import { AckDeliveredDocument, MessageEventsDocument, OfflineQueueDocument, SessionsDocument } from "../gql";
import { SyncSessionDocument, SyncSessionsDocument, TicksDocument, type MessageEventsSubscription } from "../gql";
import { isRetryable } from "./outbox";

export type LiveEvent = MessageEventsSubscription["messageEvents"];

export interface Sync {
  onEvent(listener: (event: LiveEvent) => void): () => void;
  stop(): void;
}

const TOGETHER_MS = 50;
const TICKS_EVERY_MS = 400;
const AGAIN_MS = 2_000;

export function startSync(client: Client, me: string): Sync {
  const listeners = new Set<(event: LiveEvent) => void>();
  const stops: (() => void)[] = [];
  let stopped = false;
  let live = false;
  let pulledTo: string | undefined;

  // Acknowledgements of a burst go together, one a conversation. The answer is the session as it is now: so the list is up to date
  // with every message that comes, without counting anything here.
  const arrived = new Map<string, number>();
  const acknowledge = (conversationId: string, seq: number, after = TOGETHER_MS) => {
    if (!arrived.size) setTimeout(flush, after);
    arrived.set(conversationId, Math.max(seq, arrived.get(conversationId) ?? 0));
  };
  /** Answers whether all went; what the network lost goes again, since the list hangs on it. */
  const flush = async () => {
    const due = [...arrived];
    arrived.clear();
    const acknowledged = due.map(async ([conversationId, upToSeq]) => {
      const { error } = await client.mutation(AckDeliveredDocument, { conversationId, upToSeq }).toPromise();
      if (error && isRetryable(error) && !stopped) acknowledge(conversationId, upToSeq, AGAIN_MS);
      return !error;
    });
    return (await Promise.all(acknowledged)).every(Boolean);
  };

  // One's own messages from another device need no acknowledgement: what they did to the list is pulled, once a burst.
  let pulling = false;
  const pull = async (after = TOGETHER_MS) => {
    if (pulling) return;
    pulling = true;
    await new Promise((resolve) => setTimeout(resolve, after));
    pulling = false;
    for (let more = true; more && !stopped; ) {
      const { data, error } = await client.query(SyncSessionsDocument, { since: pulledTo }, { requestPolicy: "network-only" }).toPromise();
      if (error && isRetryable(error)) void pull(AGAIN_MS);
      pulledTo = data?.syncSessions.cursor ?? pulledTo;
      more = data?.syncSessions.hasMore ?? false;
    }
  };

  // In a group a tick counts people, so it can't be told from one of them: it is asked for.
  const ticking = new Set<string>();
  const refreshTicks = (conversationId: string) => {
    if (ticking.has(conversationId) || !conversationId.startsWith("g_")) return;
    ticking.add(conversationId);
    setTimeout(() => {
      ticking.delete(conversationId);
      if (!stopped) void client.query(TicksDocument, { conversationId }, { requestPolicy: "network-only" }).toPromise();
    }, TICKS_EVERY_MS);
  };

  // What came while no device was there waits in the offline queue; acknowledging takes it out.
  const emptyQueue = async () => {
    for (let more = true; more && !stopped; ) {
      const { data } = await client.query(OfflineQueueDocument, {}, { requestPolicy: "network-only" }).toPromise();
      for (const { node } of data?.offlineMessages.edges ?? []) acknowledge(node.conversationId, node.seq);
      more = data?.offlineMessages.pageInfo.hasNextPage ?? false;
      if (more) more = await flush();
    }
  };

  const apply = (event: LiveEvent) => {
    live ||= event.__typename === "CaughtUp";
    if (event.__typename === "CaughtUp" && event.reset) void emptyQueue();
    if (event.__typename === "MessageCreated") {
      const { sender, conversationId, seq } = event.message;
      if (sender.id === me) void pull();
      else acknowledge(conversationId, seq);
    }
    if (event.__typename === "ReceiptAdvanced" && event.user.id !== me) refreshTicks(event.conversationId);
    if (live) listeners.forEach((tell) => tell(event));
  };

  const start = async () => {
    for (let wait = 500; !stopped; wait = Math.min(wait * 2, 8000)) {
      const { data } = await client.query(SessionsDocument, {}, { requestPolicy: "network-only" }).toPromise();
      if (data) return follow(data.sessions.cursor);
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  };

  const follow = (since: string) => {
    if (stopped) return;
    pulledTo = since;
    const sessions = client.subscription(SyncSessionDocument, { since }).subscribe(() => {});
    const messages = client.subscription(MessageEventsDocument, { since }).subscribe(({ data }) => data && apply(data.messageEvents));
    stops.push(sessions.unsubscribe, messages.unsubscribe);
    void emptyQueue();
  };

  void start();

  return {
    onEvent: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    stop: () => {
      stopped = true;
      stops.forEach((stop) => stop());
      listeners.clear();
    },
  };
}
