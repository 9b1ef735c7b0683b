/** Changes that the user makes. Each is shown at once, and undone if the server refuses it. */
import { AssignCategory, DeleteSession, FollowChannel, FollowThread, LockThread, MarkManyRead, MarkRead, MuteSession, PinSession, SetUnread } from "./gql";
import { EditMessage, PinMessage, React, RecallMessage, SuppressEmbeds, UnpinMessage, Unreact } from "./gql";
import type { Workspaces } from "./live/workspaces";
import type { Pins } from "./messages/pins";
import type { Store } from "./store/store";
import type { Api, ConfabClient, Message, Operation, Session, Thread } from "./types";

export type Actions = Pick<
  ConfabClient,
  | "edit" | "recall" | "react" | "unreact" | "pinMessage" | "unpinMessage" | "suppressEmbeds"
  | "markRead" | "markManyRead" | "markUnread" | "pinSession" | "muteSession" | "deleteSession" | "moveToCategory"
  | "followChannel" | "followThread" | "lockThread"
>;

/** Limit of markManyRead and assignCategory. */
const MAX_IDS = 200;
const READ = { unreadCount: 0, unreadMentionCount: 0, unreadStatus: false };

export function userActions(api: Api, store: Store, workspaces: Workspaces, pins: Pins): Actions {
  const changeSessions = async <D extends object, V>(changes: readonly (readonly [string, Partial<Session>])[], operation: Operation<D, V>, variables: V) => {
    const undos = changes.map(([id, change]) => store.patchSession(id, change));
    try {
      store.applySessions(Object.values(await api.request(operation, variables)).flat() as Session[]);
    } catch (error) {
      undos.forEach((undo) => undo());
      throw error;
    }
  };
  const changeSession = <D extends object, V>(id: string, change: Partial<Session>, operation: Operation<D, V>, variables: V) =>
    changeSessions([[id, change]], operation, variables);
  /** All messages of the conversation were read. */
  const read = (id: string): Partial<Session> => {
    const channel = workspaces.loadedChannel(id);
    return { ...READ, ...(channel && { readCount: channel.messageCount }) };
  };
  /** Changes the sessions in parts that the server accepts. */
  const inParts = async (ids: readonly string[], act: (part: readonly string[]) => Promise<void>) => {
    for (let at = 0; at < ids.length; at += MAX_IDS) await act(ids.slice(at, at + MAX_IDS));
  };
  const patchThread = (parentId: string, threadId: string, change: Partial<Thread>) => {
    const thread = store.message(parentId)?.thread;
    if (thread) store.patchMessage(parentId, { thread: { ...thread, ...change } });
    store.patchThreadSession({ id: threadId, ...change });
  };
  const changeMessage = async <D extends object, V>(operation: Operation<D, V>, variables: V) => {
    const requestedAt = store.eventCount();
    const [message] = Object.values(await api.request(operation, variables)) as [Message];
    store.applyMessages([message], requestedAt);
    return message;
  };
  const changePin = async (operation: typeof PinMessage | typeof UnpinMessage, id: string) => {
    const message = await changeMessage(operation as typeof PinMessage, { id });
    pins.add(store.message(id) ?? message);
    return message;
  };
  const changeReaction = async (id: string, emoji: string, add: boolean, operation: typeof React | typeof Unreact) => {
    const stored = store.message(id);
    const firstAt = new Date(api.now()).toISOString();
    const change = stored && { reactions: reacted(stored.reactions, emoji, add, firstAt) };
    if (change) store.patchMessage(id, change);
    try {
      await changeMessage(operation as typeof React, { id, emoji });
    } catch (error) {
      const now = store.message(id);
      if (change && now) store.patchMessage(id, { reactions: reacted(now.reactions, emoji, !add, firstAt) });
      throw error;
    }
  };

  return {
    edit: (id, content) => changeMessage(EditMessage, { id, content }),
    recall: (id) => changeMessage(RecallMessage, { id }),
    react: (id, emoji) => changeReaction(id, emoji, true, React),
    unreact: (id, emoji) => changeReaction(id, emoji, false, Unreact),
    pinMessage: (id) => changePin(PinMessage, id),
    unpinMessage: (id) => changePin(UnpinMessage, id),
    suppressEmbeds: (id) => changeMessage(SuppressEmbeds, { id }),
    markRead: (conversationId, upToSeq) => {
      // Only the server knows how many messages stay unread after a lower seq.
      const all = upToSeq === undefined || upToSeq >= (store.session(conversationId)?.writeSeq ?? Infinity);
      return changeSession(conversationId, all ? read(conversationId) : { unreadStatus: false }, MarkRead, { conversationId, upToSeq });
    },
    markManyRead: (ids) =>
      inParts(ids, (conversationIds) => changeSessions(conversationIds.map((id) => [id, read(id)]), MarkManyRead, { conversationIds: [...conversationIds] })),
    markUnread: (conversationId) => changeSession(conversationId, { unreadStatus: true }, SetUnread, { conversationId }),
    followChannel: async (id, follow) => {
      const requestedAt = store.eventCount();
      workspaces.put((await api.request(FollowChannel, { id, follow })).followChannel, requestedAt);
    },
    followThread: async (id, follow) => {
      const { parent, viewerFollows } = (await api.request(FollowThread, { id, follow })).followThread;
      patchThread(parent.id, id, { viewerFollows });
    },
    lockThread: async (id, locked) => {
      const { parent, isLocked } = (await api.request(LockThread, { id, locked })).lockThread;
      patchThread(parent.id, id, { isLocked });
    },
    moveToCategory: (ids, categoryId) =>
      inParts(ids, (conversationIds) =>
        changeSessions(conversationIds.map((id) => [id, { categoryId }]), AssignCategory, { conversationIds: [...conversationIds], categoryId }),
      ),
    pinSession: (conversationId, priority = 1) => changeSession(conversationId, { priority }, PinSession, { conversationId, priority }),
    muteSession: (conversationId, muted, until) =>
      changeSession(conversationId, { muteStatus: muted, mutedUntil: until ?? null }, MuteSession, { conversationId, muted, until }),
    deleteSession: (conversationId) => changeSession(conversationId, { status: "INVALID" }, DeleteSession, { conversationId }),
  };
}

/** The reactions after the server has stored this one. */
function reacted(reactions: Message["reactions"], emoji: string, add: boolean, firstAt: string): Message["reactions"] {
  const held = reactions.find((each) => each.emoji === emoji);
  if (!held) return add ? [...reactions, { emoji, count: 1, viewerReacted: true, firstAt, users: [] }] : reactions;
  if (held.viewerReacted === add) return reactions;
  const changed = { ...held, viewerReacted: add, count: held.count + (add ? 1 : -1) };
  return reactions.map((each) => (each === held ? changed : each)).filter(({ count }) => count > 0);
}
