import { peerIn, type Message, type Session, type User } from "@confab/client";

import { MembersDocument, OneSessionDocument, PlaceNameDocument, RoomDocument } from "../../gql";
import { useIsBlocked } from "../blocking/useBlocks";
import { rightsFrom } from "../moderation/rights";
import { useAsked, useWorld } from "../world";

/** The name of a conversation as it is displayed: "#lake", "Weekend hike", "Bob Baker". Empty until it is loaded. */
export function usePlaceName(conversationId: string): { name: string; workspaceId: string | null; workspaceName: string | null } {
  const conversation = useAsked({ query: PlaceNameDocument, variables: { id: conversationId } })[0].data?.conversation;
  if (conversation?.__typename !== "Channel") return { name: conversation?.title ?? "", workspaceId: null, workspaceName: null };
  return { name: `#${conversation.name}`, workspaceId: conversation.workspace.id, workspaceName: conversation.workspace.name };
}

interface Rights {
  /** Why the user may not reply; null if they may. */
  refusal: string | null;
  mayBroadcast: boolean;
  mayLock: boolean;
  mayMentionAll: boolean;
}

interface Place extends Rights {
  /** Of the conversation; null in channels, which have no receipts. */
  session: Session | null;
  /** The workspace whose members may be mentioned; null: `people`. */
  workspaceId: string | null;
  people: readonly Pick<User, "id" | "displayName">[];
}

const LOCKED = "This thread is locked.";

/** The conversation of a thread, and what the user may do in the thread. */
export function usePlace(conversationId: string, parent: Message | null, thread: { isLocked: boolean } | null): Place {
  const { me } = useWorld();
  const isChannel = conversationId.startsWith("c_");
  const room = useAsked({ query: RoomDocument, variables: { id: conversationId }, pause: !isChannel })[0].data?.conversation;
  const session = useAsked({ query: OneSessionDocument, variables: { conversationId }, pause: isChannel })[0].data?.session ?? null;
  const group = session?.conversation.__typename === "Group" ? session.conversation : null;
  const members = useAsked({ query: MembersDocument, variables: { id: conversationId }, pause: !group })[0].data?.group?.members?.edges ?? [];
  const peer = session?.conversation.__typename === "PrivateConversation" ? session.conversation.peer : null;
  const isBlocked = useIsBlocked(peerIn(conversationId, me));

  const isOwn = parent?.sender.id === me;
  const isLocked = thread?.isLocked ?? false;
  if (room?.__typename === "Channel") {
    const may = rightsFrom(room.viewerPermissions);
    const mayLock = (isOwn || may("MANAGE_THREADS")) && !room.isArchived;
    const mayReply = may("SEND_THREADS") && (thread !== null || may("CREATE_THREADS"));
    const refusal = room.isArchived ? "This channel is archived." : !mayReply ? "You may not reply in this channel." : isLocked && !mayLock ? LOCKED : null;
    return { session: null, workspaceId: room.workspace.id, people: [], refusal, mayLock, mayBroadcast: may("SEND_MESSAGES"), mayMentionAll: may("MENTION_EVERYONE") };
  }
  const rules = group?.viewerRole === "OWNER" || group?.viewerRole === "ADMIN";
  const isAway = !!group && (group.viewerRole === null || group.status === "DISSOLVED");
  const mayLock = !isAway && (isOwn || rules);
  const refusal = isAway ? "You are no longer in this group." : isBlocked ? `You have blocked ${peer?.displayName ?? "this person"}.` : isLocked && !mayLock ? LOCKED : null;
  return { session, workspaceId: null, people: peer ? [peer] : members.map(({ node }) => node.user), refusal, mayLock, mayBroadcast: true, mayMentionAll: rules };
}
