import type { History, Message } from "@confab/client";
import { useRef, useState } from "react";

import { useWatched, useApp } from "../appContext";
import { useHistory } from "./useHistory";
import { useMarkRead, useNewMessagesLine, type ReadState } from "./useReading";
import { useTarget, type Target } from "./useTarget";

interface Options {
  conversationId: string;
  history: History;
  /** Undefined until it is known. */
  read: ReadState | null | undefined;
  /** The message that the address names. */
  seq: number | null;
  beginning: Target | null;
  /** Something else covers the messages. */
  covered?: boolean;
  isThread?: boolean;
}

export type Pane = ReturnType<typeof useMessagePane>;

/** The messages of a conversation, channel or thread, what the user has read of them, and what the user is writing. */
export function useMessagePane({ conversationId, history, read, seq, beginning, covered = false, isThread = false }: Options) {
  const { me, showToast } = useApp();
  const { messages, pending, loaded, isRefused, part, loadOlder, loadNewer, ...moves } = useHistory(history, read, beginning?.seq ?? null);
  const { target, fromEnd, show, toNewest } = useTarget(seq, beginning, moves, isThread);
  const watched = useWatched() && !covered;
  const markRead = useMarkRead(conversationId, read, watched);
  const live = !loadNewer;
  const [line, markSeen] = useNewMessagesLine({ me, read, messages, pending, ready: loaded, live });
  const [replying, setReplying] = useState<Message | null>(null);
  const [editing, setEditing] = useState<Message | null>(null);
  const box = useRef<HTMLTextAreaElement>(null);

  const jump = async (to: number) => {
    if (!(await show({ seq: to }))) showToast("The message didn't load. Try again when you are online.");
  };
  const onSeen = (upTo: number) => (markRead(upTo), markSeen(upTo));
  return {
    messages,
    isRefused,
    isEditing: editing !== null,
    jump: (to: number) => void jump(to),
    reply: (message: Message) => (setReplying(message), setEditing(null), box.current?.focus()),
    edit: (message: Message) => (setEditing(message), setReplying(null), box.current?.focus()),
    /** Properties of MessageList. */
    list: { part, messages, pending, loaded, line, watched, target, fromEnd, onSeen, loadOlder, loadNewer, goToNewest: toNewest },
    /** Properties of Composer. */
    composer: {
      box,
      conversationId,
      replying,
      editing,
      sent: () => live || toNewest(),
      done: () => (setReplying(null), setEditing(null)),
      editLast: () => {
        const last = messages.findLast((each) => each.sender.id === me && each.state === "NORMAL" && each.contentType !== "SYSTEM");
        if (last) setEditing(last);
      },
    },
  };
}
