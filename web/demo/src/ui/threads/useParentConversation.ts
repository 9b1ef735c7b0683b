import { peerIn, type ChannelState, type Message, type Session, type User, type View } from "@confab/client";
import { useView } from "@confab/client/react";

import { MembersDocument } from "../../gql";
import { useIsBlocked } from "../blocking/useBlocks";
import { rightsFrom } from "../moderation/rights";
import { useLatestUser, useTitle } from "../presence/usePresence";
import { useAnswer, useApp } from "../appContext";

const NOTHING: View<undefined> = { get: () => undefined, subscribe: () => () => {} };

/** The channel with this id, or the session of another conversation. */
function useChannelOrSession(conversationId: string) {
  const { client } = useApp();
  const isChannel = conversationId.startsWith("c_");
  const channel = useView<ChannelState | undefined>(isChannel ? client.channel(conversationId) : NOTHING)?.channel;
  const session = useView<Session | null | undefined>(isChannel ? NOTHING : client.session(conversationId)) ?? null;
  return { channel, session };
}

/** The name of a conversation as it is displayed: "#lake", "Weekend hike", "Bob Baker". Empty until it is loaded. */
export function useConversationName(conversationId: string): { name: string; workspaceId: string | null; workspaceName: string | null } {
  const { client } = useApp();
  const { channel, session } = useChannelOrSession(conversationId);
  const title = useTitle(session?.conversation);
  const workspaces = useView(client.workspaces);
  if (!channel) return { name: title, workspaceId: null, workspaceName: null };
  const workspaceId = channel.workspace.id;
  return { name: `#${channel.name}`, workspaceId, workspaceName: workspaces.find(({ id }) => id === workspaceId)?.name ?? null };
}

interface Rights {
  /** Why the user may not reply; null if they may. */
  refusal: string | null;
  mayBroadcast: boolean;
  mayLock: boolean;
  mayMentionAll: boolean;
}

export interface ParentConversation extends Rights {
  /** Of the conversation; null in channels, which have no receipts. */
  session: Session | null;
  /** The workspace whose members may be mentioned; null: `people`. */
  workspaceId: string | null;
  people: readonly Pick<User, "id" | "displayName">[];
}

const LOCKED = "This thread is locked.";

/** The conversation of a thread, and what the user may do in the thread. */
export function useParentConversation(conversationId: string, parent: Message | null, thread: { isLocked: boolean } | null): ParentConversation {
  const { me } = useApp();
  const { channel, session } = useChannelOrSession(conversationId);
  const group = session?.conversation.__typename === "Group" ? session.conversation : null;
  const members = useAnswer(MembersDocument, group && { id: conversationId }).data?.group?.members?.edges ?? [];
  const peer = useLatestUser(session?.conversation.__typename === "PrivateConversation" ? session.conversation.peer : null);
  const isBlocked = useIsBlocked(peerIn(conversationId, me));

  const isOwn = parent?.sender.id === me;
  const isLocked = thread?.isLocked ?? false;
  if (channel) {
    const may = rightsFrom(channel.viewerPermissions);
    const mayLock = (isOwn || may("MANAGE_THREADS")) && !channel.isArchived;
    const mayReply = may("SEND_THREADS") && (thread !== null || may("CREATE_THREADS"));
    const refusal = channel.isArchived ? "This channel is archived." : !mayReply ? "You may not reply in this channel." : isLocked && !mayLock ? LOCKED : null;
    return { session: null, workspaceId: channel.workspace.id, people: [], refusal, mayLock, mayBroadcast: may("SEND_MESSAGES"), mayMentionAll: may("MENTION_EVERYONE") };
  }
  const isGroupAdmin = group?.viewerRole === "OWNER" || group?.viewerRole === "ADMIN";
  const hasLeft = !!group && (group.viewerRole === null || group.status === "DISSOLVED");
  const mayLock = !hasLeft && (isOwn || isGroupAdmin);
  const refusal = hasLeft ? "You are no longer in this group." : isBlocked ? `You have blocked ${peer?.displayName ?? "this person"}.` : isLocked && !mayLock ? LOCKED : null;
  return { session, workspaceId: null, people: peer ? [peer] : members.map(({ node }) => node.user), refusal, mayLock, mayBroadcast: true, mayMentionAll: isGroupAdmin };
}
