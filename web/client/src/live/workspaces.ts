/**
 * Workspaces and their channels.
 *
 * Guarantees: a workspace is complete up to its rev, and every event after that is applied, so none is missed and no older one replaces
 * a newer one. After a reset, and after a change of roles or rights, it is loaded again. Read states of channels that changed while
 * there was no connection are fetched.
 */
import type { Connection } from "../connection/connection";
import { notFoundError } from "../errors";
import { Channel as ChannelQuery, MyWorkspaces, SyncChannels, Workspace as WorkspaceQuery, WorkspaceEvents } from "../gql";
import type { ChannelPartsFragment, ReadyQuery, WorkspaceEventsSubscription } from "../gql";
import type { Store } from "../store/store";
import { SESSIONS, sessionTopic } from "../store/store";
import { cached, view } from "../store/view";
import type { Api, Channel, ChannelState, ConfabError, View, VoiceState, Workspace, WorkspaceState, WorkspaceSummary } from "../types";
import { startTimers } from "../waiting";

type Event = WorkspaceEventsSubscription["workspaceEvents"];

const LIST = "workspaces";
const workspaceTopic = (id: string) => `workspace ${id}`;
const channelTopic = (id: string) => `channel ${id}`;
const BATCH_MS = 200;
const RETRY_MS = 2_000;
/** Limit of workspaceEvents. */
const MAX_WORKSPACES = 20;

export interface Workspaces {
  list: View<readonly WorkspaceSummary[]>;
  workspace(id: string): View<WorkspaceState>;
  channel(id: string): View<ChannelState>;
  /** Begins with the workspaces of the first screen. */
  follow(found: ReadyQuery["ready"]["workspaces"], cursor: string): void;
  /** Fetches the list again, after the user has joined or left a workspace. */
  reload(): Promise<void>;
  /** Fetches what changed in followed channels since the last time. */
  pullChannels(): void;
  /** An answer: requestedAt is store.eventCount() when the request began. */
  put(channel: ChannelPartsFragment, requestedAt: number): void;
  loadedChannel(channelId: string): Channel | undefined;
  setPinCount(channelId: string, pinCount: number): void;
  /** Rejects with a ConfabError. */
  workspaceIdOf(channelId: string): Promise<string>;
  applyVoiceState(workspaceId: string, state: VoiceState, left: boolean): void;
  stop(): void;
}

export function openWorkspaces(api: Api, store: Store, { caughtUp, streamEnded }: Pick<Connection, "caughtUp" | "streamEnded">): Workspaces {
  const { topics } = store;
  let stopped = false;
  const timers = startTimers();
  const { later } = timers;

  /** False until the first screen is loaded. */
  let hasBegun = false;
  let summaries: readonly WorkspaceSummary[] = [];
  /** The rev up to which the events of each followed workspace have been applied. */
  const revs = new Map<string, number>();
  const workspaces = new Map<string, Workspace>();
  const channels = new Map<string, ChannelPartsFragment>();
  const errors = new Map<string, ConfabError>();
  const stops = new Set<() => void>();

  /** The messageCount of the newest event. It only grows, and answers may be older. */
  const counts = new Map<string, number>();
  /** When an event last changed a channel. */
  const changedAt = new Map<string, number>();
  /** requestedAt: when the request began; without it this is an event. rev doesn't say which is newer: an answer's may be up to 2 s behind. */
  const put = (channel: ChannelPartsFragment, requestedAt?: number) => {
    if (channel.session) store.applySessions([channel.session]);
    if (requestedAt !== undefined && (changedAt.get(channel.id) ?? 0) > requestedAt) return;
    if (requestedAt === undefined) changedAt.set(channel.id, store.nextEvent());
    errors.delete(channel.id);
    channels.set(channel.id, { ...channel, messageCount: Math.max(channel.messageCount, counts.get(channel.id) ?? 0) });
    topics.changed(channelTopic(channel.id));
    topics.changed(workspaceTopic(channel.workspace.id));
  };
  const change = (channelId: string, by: (channel: ChannelPartsFragment) => Partial<ChannelPartsFragment>) => {
    const held = channels.get(channelId);
    if (held) put({ ...held, ...by(held), session: null });
  };
  const remove = (channelId: string) => {
    const held = channels.get(channelId);
    changedAt.set(channelId, store.nextEvent());
    errors.set(channelId, notFoundError());
    if (!channels.delete(channelId) || !held) return;
    topics.changed(channelTopic(channelId));
    topics.changed(workspaceTopic(held.workspace.id));
  };

  /** The same object until the channel or its session changes. */
  const shown = new WeakMap<ChannelPartsFragment, Channel>();
  const show = (parts: ChannelPartsFragment): Channel => {
    const session = store.session(parts.id) ?? null;
    const before = shown.get(parts);
    if (before && before.session === session) return before;
    const unreadCount = parts.viewerFollows && session ? Math.max(0, parts.messageCount - session.readCount) : 0;
    const channel = { ...parts, session, unreadCount };
    shown.set(parts, channel);
    return channel;
  };

  const loading = new Map<string, Event[]>();
  const load = async (id: string) => {
    if (loading.has(id)) return;
    const missed: Event[] = [];
    loading.set(id, missed);
    const requestedAt = store.eventCount();
    try {
      let after: string | null | undefined;
      let workspace: Workspace | undefined;
      const found: ChannelPartsFragment[] = [];
      do {
        const answer = (await api.request(WorkspaceQuery, { id, after })).workspace;
        if (!answer) return forget(id);
        const { channels: page, ...parts } = answer;
        workspace ??= parts;
        found.push(...page.edges.map(({ node }) => node));
        after = page.pageInfo.hasNextPage ? page.pageInfo.endCursor : null;
      } while (after);
      const visible = new Set(found.map((each) => each.id));
      for (const each of [...channels.values()]) if (each.workspace.id === id && !visible.has(each.id)) remove(each.id);
      errors.delete(id);
      found.forEach((each) => put(each, requestedAt));
      workspaces.set(id, workspace); // Listeners must not take it for complete before.
      const { name, iconUrl, memberCount, onlineCount } = workspace;
      summaries = summaries.map((each) => (each.id === id ? { id, name, iconUrl, memberCount, onlineCount } : each));
      topics.changed(LIST);
      const { rev } = workspace;
      loading.delete(id);
      missed.filter((event) => event.rev > rev).forEach(apply);
      if (hasBegun && !revs.has(id) && workspace.viewer) followTogether([{ id, rev }]); // An open workspace may also be displayed by users who are no members.
    } catch (error) {
      const refusal = error as ConfabError;
      if (refusal.isRetryable) later(refusal.retryAfterMs || RETRY_MS, () => void load(id));
      else errors.set(id, refusal);
    } finally {
      loading.delete(id);
      topics.changed(workspaceTopic(id));
    }
  };
  const reloadSoon = (id: string) => {
    if (workspaces.has(id)) later(BATCH_MS, () => void load(id));
  };
  /** Called when the user has left or lost the membership. */
  const forget = (id: string) => {
    revs.delete(id);
    streamEnded(id);
    workspaces.delete(id);
    errors.set(id, notFoundError());
    summaries = summaries.filter((each) => each.id !== id);
    for (const each of [...channels.values()]) if (each.workspace.id === id) remove(each.id);
    topics.changed(LIST);
    topics.changed(workspaceTopic(id));
  };

  /** When the last stay that has ended began, by workspace and user. Each stay of a user begins later than the one before it. */
  const endedStays = new Map<string, string>();
  const applyVoiceState = (workspaceId: string, state: VoiceState, left: boolean) => {
    const its = [...channels.values()].filter(({ workspace }) => workspace.id === workspaceId);
    const isOwn = ({ user }: VoiceState) => user.id === state.user.id;
    const stay = `${workspaceId} ${state.user.id}`;
    const ended = endedStays.get(stay) ?? "";
    const isOutdated = its.some(({ voiceStates }) => voiceStates.some((held) => isOwn(held) && held.joinedAt > state.joinedAt));
    if (left && state.joinedAt > ended) endedStays.set(stay, state.joinedAt);
    if (isOutdated || (!left && state.joinedAt <= ended)) return;
    for (const { id: channelId, voiceStates } of its) {
      const isThere = channelId === state.channelId;
      // The user may have moved: they left one channel, and are already in another.
      if (left && !isThere) continue;
      const others = voiceStates.filter((held) => !isOwn(held));
      const joined = isThere && !left;
      if (joined || others.length < voiceStates.length) change(channelId, () => ({ voiceStates: joined ? [...others, state] : others }));
    }
  };

  const workspaceOf = (event: Event) =>
    event.__typename === "WorkspaceChanged" ? event.workspace.id
    : event.__typename === "ChannelChanged" ? event.channel.workspace.id
    : event.__typename === "ChannelActivity" ? channels.get(event.channelId)?.workspace.id
    : event.workspaceId;
  const apply = (event: Event) => {
    if (event.__typename === "ChannelActivity") counts.set(event.channelId, Math.max(event.messageCount, counts.get(event.channelId) ?? 0));
    const id = workspaceOf(event);
    if (!id) return; // The channel is not loaded.
    if (revs.has(id)) revs.set(id, Math.max(revs.get(id)!, event.rev));
    loading.get(id)?.push(event);
    switch (event.__typename) {
      case "ChannelActivity":
        if ((store.session(event.channelId)?.writeSeq ?? Infinity) < event.writeSeq) store.patchSession(event.channelId, { writeSeq: event.writeSeq });
        return change(event.channelId, () => ({}));
      case "ChannelChanged":
        return put(event.channel);
      case "ChannelGone":
        return remove(event.channelId);
      case "VoiceStateChanged":
        return applyVoiceState(id, event.state, event.left);
      case "OwnMembershipChanged":
        return event.member ? reloadSoon(id) : forget(id);
      case "WorkspaceChanged":
        return reloadSoon(id);
      case "WorkspaceCaughtUp":
        caughtUp(id, false);
        if (event.reset) reloadSoon(id);
    }
  };

  /** One subscription for up to 20 workspaces. It continues from the last rev of each after a lost connection. */
  const followTogether = (positions: { id: string; rev: number }[]) => {
    if (stopped || !positions.length) return;
    positions.forEach(({ id, rev }) => revs.set(id, rev));
    const members = () => positions.filter(({ id }) => revs.has(id)).map(({ id }) => ({ id, rev: revs.get(id)! }));
    const stop = api.subscribe(WorkspaceEvents, () => ({ workspaces: members() }), {
      next: ({ workspaceEvents }) => apply(workspaceEvents),
      error: () => {
        // The user has left one of the workspaces while there was no connection.
        stops.delete(stop);
        positions.forEach(({ id }) => (revs.delete(id), streamEnded(id)));
        later(RETRY_MS, () => void reload().catch(() => {})); // It is tried again with the next start.
      },
    });
    stops.add(stop);
  };
  const followAll = (found: readonly (WorkspaceSummary & { rev: number })[]) => {
    // One that is loaded may be older than the list.
    const fresh = found.filter(({ id }) => !revs.has(id)).map(({ id, rev }) => ({ id, rev: Math.min(rev, workspaces.get(id)?.rev ?? rev) }));
    for (const { id } of fresh) if (errors.delete(id) && workspaceViews.has(id)) void load(id);
    for (let at = 0; at < fresh.length; at += MAX_WORKSPACES) followTogether(fresh.slice(at, at + MAX_WORKSPACES));
    const present = new Set(found.map(({ id }) => id));
    [...revs.keys()].filter((id) => !present.has(id)).forEach(forget);
    summaries = found.map(({ rev, ...summary }) => summary);
    topics.changed(LIST);
  };
  const reload = async () => {
    try {
      followAll((await api.request(MyWorkspaces, {})).ready.workspaces);
      [...workspaces.keys()].forEach(reloadSoon);
    } catch (error) {
      if (!(error as ConfabError).isRetryable) throw error;
      later(RETRY_MS, () => void reload().catch(() => {}));
    }
  };

  let pulledTo: string | undefined;
  let pulling = false;
  let isPullDue = false;
  const pullChannels = async () => {
    isPullDue = pulling;
    if (pulling || !summaries.length) return;
    pulling = true;
    try {
      for (let more = true; more && !stopped; ) {
        const requestedAt = store.eventCount();
        const { channels: changed, gone, cursor, hasMore, reset } = (await api.request(SyncChannels, { since: pulledTo })).syncChannels;
        changed.forEach((each) => put(each, requestedAt));
        if (reset) [...workspaces.keys()].forEach(reloadSoon);
        else gone.forEach((id) => change(id, () => ({ viewerFollows: false })));
        pulledTo = cursor;
        more = hasMore;
      }
    } catch (error) {
      if ((error as ConfabError).isRetryable) later(RETRY_MS, () => void pullChannels());
    } finally {
      pulling = false;
    }
    if (isPullDue && !stopped) void pullChannels(); // The answer may be older than what it was called for.
  };

  const channelsLoading = new Set<string>();
  const loadChannel = async (id: string) => {
    if (channelsLoading.has(id)) return;
    channelsLoading.add(id);
    const requestedAt = store.eventCount();
    try {
      const { channel } = await api.request(ChannelQuery, { id });
      errors.delete(id);
      if (channel) put(channel, requestedAt);
      else errors.set(id, notFoundError());
    } catch (error) {
      if ((error as ConfabError).isRetryable) return later(RETRY_MS, () => void loadChannel(id));
      errors.set(id, error as ConfabError);
    } finally {
      channelsLoading.delete(id);
    }
    topics.changed(channelTopic(id));
  };

  const workspaceViews = new Map<string, View<WorkspaceState>>();
  const channelViews = new Map<string, View<ChannelState>>();
  /** Loading begins with the first subscriber. */
  const loadOnSubscribe = <T>({ get, subscribe }: View<T>, begin: () => void): View<T> => ({ get, subscribe: (listener) => (begin(), subscribe(listener)) });

  return {
    list: view(topics, [LIST], () => summaries),
    workspace: (id) =>
      cached(workspaceViews, id, () => {
        let shownBefore: WorkspaceState | undefined;
        const compute = (): WorkspaceState => {
          const [workspace, error] = [workspaces.get(id), errors.get(id)];
          const its = [...channels.values()].filter((each) => workspace && each.workspace.id === id);
          its.sort((a, b) => (a.category?.position ?? -1) - (b.category?.position ?? -1) || a.position - b.position);
          const now: WorkspaceState = { status: workspace ? "ready" : error ? "failed" : "loading", workspace, channels: its.map(show), error };
          const before = shownBefore;
          // Sessions of other conversations change nothing here.
          const isSame = before && before.workspace === workspace && before.error === error && before.channels.length === its.length;
          if (isSame && now.channels.every((each, index) => each === before.channels[index])) return before;
          return (shownBefore = now);
        };
        return loadOnSubscribe(view(topics, [workspaceTopic(id), SESSIONS], compute), () => void (workspaces.has(id) || load(id)));
      }),
    channel: (id) =>
      cached(channelViews, id, () =>
        loadOnSubscribe(
          view<ChannelState>(topics, [channelTopic(id), sessionTopic(id)], () => {
            const [channel, error] = [channels.get(id), errors.get(id)];
            return { status: channel ? "ready" : error ? "failed" : "loading", channel: channel && show(channel), error };
          }),
          () => void (channels.has(id) || loadChannel(id)),
        ),
      ),
    follow: (found, cursor) => {
      pulledTo = cursor;
      hasBegun = true;
      followAll(found);
    },
    reload,
    pullChannels: () => void pullChannels(),
    put,
    loadedChannel: (id) => {
      const held = channels.get(id);
      return held && show(held);
    },
    workspaceIdOf: async (id) => {
      const found = channels.get(id) ?? (await api.request(ChannelQuery, { id })).channel;
      if (!found) throw notFoundError();
      return found.workspace.id;
    },
    applyVoiceState,
    setPinCount: (id, pinCount) => change(id, () => ({ pinCount })),
    stop: () => {
      stopped = true;
      timers.stop();
      stops.forEach((stop) => stop());
    },
  };
}
