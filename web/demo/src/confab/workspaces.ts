/**
 * Workspaces that were opened: their channels with what is unread there, their members, and who is in which voice channel.
 *
 * Guarantees: voice states are those of the last loaded workspace and of all events after its rev, so none is missed and no older one
 * replaces a newer one. What the user has read or muted on other devices is there at once. After a reset, a reconnect, and a change of
 * channels or rights, the workspace is loaded again.
 */
import type { Client } from "@urql/core";

import { JoinVoiceDocument, LeaveVoiceDocument, OnlineCountDocument, WorkspaceDocument } from "../gql";
import type { ChannelSessionFragment, FollowChannelMutation, VoicePartsFragment, WorkspaceQuery } from "../gql";
import { ON_SOCKET } from "./client";
import { disk } from "./disk";
import type { Sync, WorkspaceEvent } from "./sync";

export type WorkspaceParts = NonNullable<WorkspaceQuery["workspace"]>;
export type ChannelView = WorkspaceParts["channels"]["edges"][number]["node"];

/** The number of unread messages in a channel. 0 in channels that the user does not follow. */
export const unreadIn = ({ viewerFollows, messageCount, session }: ChannelView) => (viewerFollows && session ? Math.max(0, messageCount - session.readCount) : 0);

export interface WorkspaceView extends WorkspaceParts {
  /** By user. */
  voice: ReadonlyMap<string, VoicePartsFragment>;
}

export interface VoicePlace {
  workspaceId: string;
  channelId: string;
}

export interface Workspaces {
  /** Loads it, if it is not there. */
  open(id: string): void;
  /** Loads it again, after a change of its members that no event tells of. */
  reload(id: string): void;
  /** Undefined until it is there; null if there is none. The same object as long as nothing changes. */
  get(id: string): WorkspaceView | null | undefined;
  onChange(listener: () => void): () => void;
  /** The user's state in a channel, from the answer to a mutation. It is ignored if it is older than the current one. */
  noteSession(channelId: string, session: ChannelSessionFragment): void;
  /** Called when the user has followed or unfollowed a channel. */
  noteFollowing(channel: FollowChannelMutation["followChannel"]): void;
  /** Asks how many are online now. */
  count(id: string): void;
  /** The voice channel that this device has joined. */
  joined(): VoicePlace | null;
  /** Returns the error, or whether a media server waits for a media client. */
  join(place: VoicePlace): Promise<{ error?: string; hasMedia: boolean }>;
  leave(): Promise<void>;
  stop(): void;
}

const TOGETHER_MS = 200;

export function openWorkspaces(client: Client, sync: Sync, me: string, place: string): Workspaces {
  const views = new Map<string, WorkspaceView | null>();
  const loading = new Set<string>();
  const listeners = new Set<() => void>();
  const changed = () => listeners.forEach((listener) => listener());
  const key = `${place}.voice`;
  let joined = JSON.parse(disk.get(key) ?? "null") as VoicePlace | null;
  const setJoined = (now: VoicePlace | null) => {
    joined = now;
    if (now) disk.set(key, JSON.stringify(now));
    else disk.remove(key);
    changed();
  };

  /** This device is still in its channel if the workspace says so. */
  const checkJoined = (id: string) => {
    if (joined?.workspaceId === id && views.get(id)?.voice.get(me)?.channelId !== joined.channelId) setJoined(null);
  };

  const load = async (id: string, after = 0) => {
    if (loading.has(id)) return;
    loading.add(id);
    await new Promise((resolve) => setTimeout(resolve, after));
    const missed: WorkspaceEvent[] = [];
    const off = sync.onWorkspaceEvent((event) => missed.push(event));
    const { data, error } = await client.query(WorkspaceDocument, { id }, { requestPolicy: "network-only" }).toPromise();
    off();
    loading.delete(id);
    if (!data || error) return;
    const states = data.workspace?.channels.edges.flatMap(({ node }) => node.voiceStates) ?? [];
    const held = views.get(id)?.channels.edges ?? [];
    views.set(id, data.workspace ? { ...data.workspace, voice: new Map(states.map((state) => [state.user.id, state])) } : null);
    missed.forEach(apply);
    for (const { node } of held) if (node.session) noteSession(node.id, node.session);
    checkJoined(id);
    changed();
  };

  const changeChannel = (channelId: string, change: (channel: ChannelView) => ChannelView) => {
    for (const [id, view] of views) {
      const edges = view?.channels.edges.map(({ node }) => ({ node: node.id === channelId ? change(node) : node }));
      if (view && edges) views.set(id, { ...view, channels: { ...view.channels, edges } });
    }
    changed();
  };

  const noteSession = (channelId: string, session: ChannelSessionFragment) =>
    changeChannel(channelId, (channel) => ((channel.session?.activeTs ?? 0) > session.activeTs ? channel : { ...channel, session }));

  /** Workspaces that have caught up before: after the first time, it means that the connection was lost. */
  const caughtUp = new Set<string>();
  const apply = (event: WorkspaceEvent) => {
    if (event.__typename === "ChannelActivity") {
      // It only grows.
      return changeChannel(event.channelId, (channel) => ({ ...channel, messageCount: Math.max(channel.messageCount, event.messageCount) }));
    }
    if (event.__typename === "VoiceStateChanged") {
      const view = views.get(event.workspaceId);
      if (!view || event.rev <= view.rev) return;
      const voice = new Map(view.voice);
      if (!event.left) voice.set(event.state.user.id, event.state);
      else if (voice.get(event.state.user.id)?.channelId === event.state.channelId) voice.delete(event.state.user.id);
      views.set(event.workspaceId, { ...view, rev: event.rev, voice });
      checkJoined(event.workspaceId);
      changed();
      return;
    }
    const id = workspaceOf(event);
    if (!id) return;
    const isFirst = event.__typename === "WorkspaceCaughtUp" && !event.reset && !caughtUp.has(id);
    if (event.__typename === "WorkspaceCaughtUp") caughtUp.add(id);
    // The missed events do not include what the user has read on other devices.
    if (views.has(id) && !isFirst) void load(id, TOGETHER_MS);
  };
  const off = sync.onWorkspaceEvent(apply);
  const offSessions = sync.onSession((session) => session.conversation.__typename === "Channel" && noteSession(session.conversation.id, session));
  if (joined) void load(joined.workspaceId);

  return {
    open: (id) => void (views.has(id) || load(id)),
    reload: (id) => void load(id),
    get: (id) => views.get(id),
    onChange: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    noteSession,
    noteFollowing: ({ id, ...now }) => changeChannel(id, (channel) => ({ ...channel, ...now })),
    count: (id) =>
      void client.query(OnlineCountDocument, { id }, { requestPolicy: "network-only" }).toPromise().then(({ data }) => {
        const view = views.get(id);
        if (!view || !data?.workspace || view.onlineCount === data.workspace.onlineCount) return;
        views.set(id, { ...view, ...data.workspace });
        changed();
      }),
    joined: () => joined,
    join: async (to) => {
      const { data, error } = await client.mutation(JoinVoiceDocument, { channelId: to.channelId }, ON_SOCKET).toPromise();
      if (!data) return { error: error?.graphQLErrors[0]?.message ?? "This needs the network. Try again when you are online.", hasMedia: false };
      const view = views.get(to.workspaceId);
      // The event comes too, in any order.
      if (view) views.set(to.workspaceId, { ...view, voice: new Map(view.voice).set(me, data.joinVoice.state) });
      setJoined(to);
      return { hasMedia: data.joinVoice.url !== null };
    },
    leave: async () => {
      const left = joined;
      const { error } = await client.mutation(LeaveVoiceDocument, {}, ON_SOCKET).toPromise();
      if (error?.networkError) return;
      const view = left && views.get(left.workspaceId);
      if (view) {
        const voice = new Map(view.voice);
        voice.delete(me);
        views.set(left.workspaceId, { ...view, voice });
      }
      setJoined(null);
    },
    stop: () => {
      off();
      offSessions();
      listeners.clear();
    },
  };
}

function workspaceOf(event: WorkspaceEvent): string | undefined {
  if ("workspace" in event) return event.workspace.id;
  return "channel" in event ? event.channel.workspace.id : "workspaceId" in event ? event.workspaceId : undefined;
}
