/** Changes that the user makes. Each is shown at once, and undone if the server refuses it. */
import { DeleteSession, EditMessage, FollowChannel, FollowThread, MarkRead, MuteSession, PinSession, React, RecallMessage, SetUnread, Unreact } from "./gql";
import type { Workspaces } from "./live/workspaces";
import type { Store } from "./store/store";
import type { Api, ConfabClient, Message, Operation, Session } from "./types";

export type Actions = Pick<
  ConfabClient,
  "edit" | "recall" | "react" | "unreact" | "markRead" | "setUnread" | "followChannel" | "followThread" | "pin" | "mute" | "remove"
>;

export function userActions(api: Api, store: Store, workspaces: Workspaces): Actions {
  const changeSession = async <D extends object, V>(id: string, change: Partial<Session>, operation: Operation<D, V>, variables: V) => {
    const undo = store.patchSession(id, change);
    try {
      store.applySessions(Object.values(await api.request(operation, variables)) as Session[]);
    } catch (error) {
      undo();
      throw error;
    }
  };
  const changeMessage = async <D extends object, V>(operation: Operation<D, V>, variables: V) => {
    const asOf = store.time();
    const [message] = Object.values(await api.request(operation, variables)) as [Message];
    store.applyMessages([message], asOf);
    return message;
  };
  const changeReaction = async (id: string, emoji: string, add: boolean, operation: typeof React | typeof Unreact) => {
    const held = store.message(id);
    const change = held && { reactions: reacted(held.reactions, emoji, add) };
    if (change) store.patchMessage(id, change);
    try {
      await changeMessage(operation as typeof React, { id, emoji });
    } catch (error) {
      const now = store.message(id);
      if (change && now) store.patchMessage(id, { reactions: reacted(now.reactions, emoji, !add) });
      throw error;
    }
  };

  return {
    edit: (id, content) => changeMessage(EditMessage, { id, content }),
    recall: (id) => changeMessage(RecallMessage, { id }),
    react: (id, emoji) => changeReaction(id, emoji, true, React),
    unreact: (id, emoji) => changeReaction(id, emoji, false, Unreact),
    markRead: (conversationId, upToSeq) => {
      const channel = workspaces.held(conversationId);
      // Only the server knows how many messages stay unread after a lower seq.
      const all = upToSeq === undefined || upToSeq >= (store.session(conversationId)?.writeSeq ?? Infinity);
      const change = all ? { unreadCount: 0, unreadMentionCount: 0, unreadStatus: false, ...(channel && { readCount: channel.messageCount }) } : { unreadStatus: false };
      return changeSession(conversationId, change, MarkRead, { conversationId, upToSeq });
    },
    setUnread: (conversationId) => changeSession(conversationId, { unreadStatus: true }, SetUnread, { conversationId }),
    followChannel: async (id, follow) => {
      const asOf = store.time();
      workspaces.put((await api.request(FollowChannel, { id, follow })).followChannel, asOf);
    },
    followThread: async (id, follow) => {
      const { parent, viewerFollows } = (await api.request(FollowThread, { id, follow })).followThread;
      const thread = store.message(parent.id)?.thread;
      if (thread) store.patchMessage(parent.id, { thread: { ...thread, viewerFollows } });
    },
    pin: (conversationId, priority = 1) => changeSession(conversationId, { priority }, PinSession, { conversationId, priority }),
    mute: (conversationId, muted, until) =>
      changeSession(conversationId, { muteStatus: muted, mutedUntil: until ?? null }, MuteSession, { conversationId, muted, until }),
    remove: (conversationId) => changeSession(conversationId, { status: "INVALID" }, DeleteSession, { conversationId }),
  };
}

/** The reactions after the server has stored this one. */
function reacted(reactions: Message["reactions"], emoji: string, add: boolean): Message["reactions"] {
  const held = reactions.find((each) => each.emoji === emoji);
  if (!held) return add ? [...reactions, { emoji, count: 1, viewerReacted: true, users: [] }] : reactions;
  if (held.viewerReacted === add) return reactions;
  const changed = { ...held, viewerReacted: add, count: held.count + (add ? 1 : -1) };
  return reactions.map((each) => (each === held ? changed : each)).filter(({ count }) => count > 0);
}
