/**
 * The voice channel that this device has joined.
 *
 * Guarantees: the channel is known until the user's voice state there ends, or until another device or a moderator takes it over, also
 * after the page was loaded again. The server keeps the state for 40 s without a connection, so it is not joined again.
 */
import type { Disk } from "../disk";
import { JoinVoice, LeaveVoice, UpdateVoice } from "../gql";
import { view, type Topics } from "../store/view";
import type { Api, ConfabClient, ConfabError, VoiceState } from "../types";
import type { Workspaces } from "./workspaces";

const VOICE = "voice";
const OVER_WEB_SOCKET = { overWebSocket: true };

export interface Voice extends Pick<ConfabClient, "voiceChannelId" | "joinVoice" | "leaveVoice" | "updateVoice"> {
  stop(): void;
}

interface JoinedVoice {
  workspaceId: string;
  /** joinedAt distinguishes this stay from later ones and from those of other devices. */
  state: VoiceState;
}

export interface VoiceOptions {
  api: Api;
  topics: Topics;
  workspaces: Workspaces;
  disk: Disk;
  /** The entry on the disk. */
  name: string;
}

export function openVoice({ api, topics, workspaces, disk, name }: VoiceOptions): Voice {
  let joined = read(disk, name);
  let unwatch = () => {};
  const set = (now: JoinedVoice | null) => {
    unwatch();
    joined = now;
    if (now) disk.set(name, JSON.stringify(now));
    else disk.remove(name);
    watch();
    topics.changed(VOICE);
  };
  const watch = () => {
    if (!joined) return (unwatch = () => {});
    const { workspaceId, state } = joined;
    const workspace = workspaces.workspace(workspaceId);
    const check = () => {
      const { status, channels, error } = workspace.get();
      const states = channels.find(({ id }) => id === state.channelId)?.voiceStates ?? [];
      const isThere = states.some(({ user, joinedAt }) => user.id === state.user.id && joinedAt === state.joinedAt);
      const isKnown = status === "ready" || error?.code === "NOT_FOUND";
      if (isKnown && !isThere && joined?.state === state) set(null);
    };
    unwatch = workspace.subscribe(check);
    check();
  };
  watch();

  return {
    voiceChannelId: view(topics, [VOICE], () => joined?.state.channelId ?? null),
    joinVoice: async (channelId, options) => {
      const workspaceId = await workspaces.workspaceIdOf(channelId);
      const { joinVoice } = await api.request(JoinVoice, { channelId, ...options }, OVER_WEB_SOCKET);
      // The event also arrives, before or after the answer.
      workspaces.applyVoiceState(workspaceId, joinVoice.state, false);
      set({ workspaceId, state: joinVoice.state });
      return joinVoice;
    },
    leaveVoice: async () => {
      const left = joined;
      try {
        await api.request(LeaveVoice, {}, OVER_WEB_SOCKET);
      } catch (error) {
        // Otherwise the state has ended already.
        if ((error as ConfabError).code !== "NOT_FOUND") throw error;
      }
      if (left) workspaces.applyVoiceState(left.workspaceId, left.state, true);
      if (joined === left) set(null);
    },
    updateVoice: async (change) => {
      const { updateVoice } = await api.request(UpdateVoice, change, OVER_WEB_SOCKET);
      if (joined?.state.joinedAt === updateVoice.joinedAt) workspaces.applyVoiceState(joined.workspaceId, updateVoice, false);
      return updateVoice;
    },
    stop: () => unwatch(),
  };
}

function read(disk: Disk, name: string): JoinedVoice | null {
  try {
    const found = JSON.parse(disk.get(name) ?? "null") as JoinedVoice | null;
    return found?.workspaceId && found.state.user.id ? found : null;
  } catch {
    return null; // Something else wrote there.
  }
}
