import { threadId, type History, type HistoryState } from "@confab/client";
import { useView } from "@confab/client/react";

import { useAttempt } from "../useMutation";
import { useApp } from "../appContext";

const LOADING: HistoryState = { status: "loading", messages: [], pending: [], hasOlder: false, hasNewer: false };
const nothing = () => Promise.resolve();
const NO_HISTORY: History = { get: () => LOADING, subscribe: () => () => {}, loadOlder: nothing, loadNewer: nothing, jumpTo: nothing };

/** The thread of the message with this seq. It may have no replies yet. */
export function useThread(conversationId: string, seq: number) {
  const { client } = useApp();
  const attempt = useAttempt();
  const id = threadId(conversationId, seq);
  const around = useView(client.messages(conversationId, { around: seq }));
  const parent = around.messages.find((each) => each.seq === seq) ?? null;
  const session = useView(client.session(id));
  return {
    id,
    /** The message that the thread belongs to; null if there is none, or while it is loaded. */
    parent,
    isLoading: around.status === "loading",
    /** Null without replies. */
    thread: parent?.thread ?? null,
    history: parent ? client.thread(parent) : NO_HISTORY,
    /** Undefined until it is known; null if the user does not follow the thread. */
    session,
    isFollowed: session?.status === "ACTIVE",
    follow: (follow: boolean) => attempt(client.followThread(id, follow)),
    lock: (locked: boolean) => attempt(client.lockThread(id, locked)),
  };
}
