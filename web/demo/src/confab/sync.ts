/**
 * Synchronisation: the first screen, and then the session list and all conversations of a user, as they change on any device.
 *
 * Guarantees: starts from `ready` and continues from exactly there. Missed events come first, in order. A reset starts over
 * automatically. Every received message is acknowledged as delivered. Listeners get each live event once.
 * The cursor lives as long as its cache: a reloaded page starts with `ready`.
 */
import { AckDeliveredDocument, MessageEventsDocument, OfflineQueueDocument, ReadyDocument } from "../gql";
import { SyncSessionDocument, SyncSessionsDocument, TicksDocument, WorkspaceEventsDocument } from "../gql";
import type { MessageEventsSubscription, ReadyQuery, SyncSessionSubscription, WorkspaceEventsSubscription } from "../gql";
import { backoff } from "../../../client/src/connection/backoff";
import type { Connection } from "./client";
import { isRetryable } from "./outbox";
import { MESSAGES, SESSIONS } from "./streams";

export type LiveEvent = MessageEventsSubscription["messageEvents"];

type Session = SyncSessionSubscription["syncSession"]["sessions"][number];

export type WorkspaceEvent = WorkspaceEventsSubscription["workspaceEvents"];
type Ready = ReadyQuery["ready"];
export type WorkspaceSummary = Ready["workspaces"][number];

export type Screen = "loading" | "there" | "failed";

export interface Sync {
  onEvent(listener: (event: LiveEvent) => void): () => void;
  /** Sessions that were changed, on any device; those of channels and threads too. */
  onSession(listener: (session: Session) => void): () => void;
  onWorkspaceEvent(listener: (event: WorkspaceEvent) => void): () => void;
  /** The workspaces of the first screen. */
  workspaces(): readonly WorkspaceSummary[];
  /** Asks for the first screen until it is there. Later it asks once, to refresh it. */
  loadScreen(): void;
  screen(): Screen;
  onScreen(listener: () => void): () => void;
  stop(): void;
}

const TOGETHER_MS = 50;
const TICKS_EVERY_MS = 400;
const AGAIN_MS = 2_000;
/** Limit of a subscription. */
const MOST_WORKSPACES = 20;

export function startSync({ client, ready }: Pick<Connection, "client" | "ready">, me: string): Sync {
  const listeners = new Set<(event: LiveEvent) => void>();
  const sessionListeners = new Set<(session: Session) => void>();
  const workspaceListeners = new Set<(event: WorkspaceEvent) => void>();
  let workspaces: readonly WorkspaceSummary[] = [];
  const stops: (() => void)[] = [];
  let stopped = false;
  let live = false;
  let pulledTo: string | undefined;

  // Acknowledgements of a burst are sent together, one per conversation. The answer is the present session, so the list is up to date
  // after every message, without counting here.
  const arrived = new Map<string, number>();
  const acknowledge = (conversationId: string, seq: number, after = TOGETHER_MS) => {
    if (!arrived.size) setTimeout(flush, after);
    arrived.set(conversationId, Math.max(seq, arrived.get(conversationId) ?? 0));
  };
  /** Returns true if all were sent. Lost ones are sent again, because the list depends on them. */
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

  // One's own messages from another device need no acknowledgement: the list is fetched once per burst.
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

  // In a group a tick counts people and cannot be derived from one person's receipt: it is fetched.
  const ticking = new Set<string>();
  const refreshTicks = (conversationId: string) => {
    if (ticking.has(conversationId) || !conversationId.startsWith("g_")) return;
    ticking.add(conversationId);
    setTimeout(() => {
      ticking.delete(conversationId);
      if (!stopped) void client.query(TicksDocument, { conversationId }, { requestPolicy: "network-only" }).toPromise();
    }, TICKS_EVERY_MS);
  };

  // Messages received while no device was connected wait in the offline queue; acknowledging removes them.
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

  let screen: Screen = "loading";
  const screenListeners = new Set<() => void>();
  const setScreen = (now: Screen) => {
    screen = now;
    screenListeners.forEach((changed) => changed());
  };
  let loading = false;
  const loadScreen = async () => {
    if (loading) return;
    loading = true;
    for (let tries = 0; !stopped; tries++) {
      const { data, error } = await client.query(ReadyDocument, {}, { requestPolicy: "network-only" }).toPromise();
      if (data) workspaces = data.ready.workspaces;
      if (data && screen !== "there") follow(data.ready);
      if (data || screen === "there") break;
      if (error && !isRetryable(error)) {
        setScreen("failed");
        break;
      }
      await new Promise((resolve) => setTimeout(resolve, backoff(tries)));
    }
    loading = false;
  };

  const follow = ({ cursor: since }: Ready) => {
    if (stopped) return;
    pulledTo = since;
    setScreen("there");
    const positions = workspaces.slice(0, MOST_WORKSPACES).map(({ id, rev }) => ({ id, rev }));
    ready([SESSIONS, MESSAGES, ...positions.map(({ id }) => id)]);
    const announceSession = (session: Session) => sessionListeners.forEach((listener) => listener(session));
    const sessions = client.subscription(SyncSessionDocument, { since }).subscribe(({ data }) => data?.syncSession.sessions.forEach(announceSession));
    const messages = client.subscription(MessageEventsDocument, { since }).subscribe(({ data }) => data && apply(data.messageEvents));
    stops.push(sessions.unsubscribe, messages.unsubscribe);
    if (positions.length) {
      const announce = (event: WorkspaceEvent) => workspaceListeners.forEach((listener) => listener(event));
      const changes = client.subscription(WorkspaceEventsDocument, { workspaces: positions }).subscribe(({ data }) => data && announce(data.workspaceEvents));
      stops.push(changes.unsubscribe);
    }
    void emptyQueue();
  };

  return {
    onEvent: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    stop: () => {
      stopped = true;
      stops.forEach((stop) => stop());
      listeners.clear();
      screenListeners.clear();
      sessionListeners.clear();
      workspaceListeners.clear();
    },
    onSession: (listener) => (sessionListeners.add(listener), () => void sessionListeners.delete(listener)),
    onWorkspaceEvent: (listener) => (workspaceListeners.add(listener), () => void workspaceListeners.delete(listener)),
    workspaces: () => workspaces,
    loadScreen: () => void loadScreen(),
    screen: () => screen,
    onScreen: (listener) => (screenListeners.add(listener), () => void screenListeners.delete(listener)),
  };
}
