/** What the user can do with a message. A new action is added here, and to the menu in Bubble.tsx. */
import type { Message } from "@confab/client";
import { createContext, useContext, useState, type ReactNode } from "react";

import { ReportDialog } from "../moderation/ReportDialog";
import { usePinning } from "../pins/usePinning";
import { useAttempt } from "../useMutation";
import { useApp } from "../appContext";
import { MessageInfo } from "./MessageInfo";
import { useLatestActions } from "./useLatestActions";
import type { Pane } from "./useMessagePane";

type Action = (message: Message) => void;

/** Undefined: the user may not do it here. */
export interface MessageActions {
  /** Adds one's own reaction, or removes it. */
  react?: ((message: Message, emoji: string, isOwn: boolean) => void) | undefined;
  reply?: Action | undefined;
  edit?: Action | undefined;
  pin?: Action | undefined;
  recall: Action;
  /** Whether the user may recall messages of others. */
  mayRecallAll: boolean;
  /** Removes the link previews. */
  suppress: Action;
  report: Action;
  /** Shows who has received and read it. */
  info?: Action | undefined;
  /** Opens the message's thread, which has replies. */
  openThread?: Action | undefined;
  /** Opens the message's thread, also for the first reply. */
  startThread?: Action | undefined;
  /** Shows the message with this seq. */
  jump: (seq: number) => void;
}

export interface MessageRights {
  mayReact: boolean;
  /** Replies and edits. */
  mayWrite: boolean;
  mayPin?: boolean;
  mayRecallAll?: boolean;
  /** Whether the conversation has receipts. */
  hasInfo?: boolean;
  openThread?: Action;
  mayStartThread?: boolean;
}

const Context = createContext<MessageActions | null>(null);
export const useMessageActions = () => useContext(Context)!;

const RECALL = { title: "Recall this message?", text: "Its text disappears for everybody. This cannot be undone.", verb: "Recall" };

interface Props {
  pane: Pane;
  rights: MessageRights;
  children: ReactNode;
}

export function MessageActionsProvider({ pane, rights, children }: Props) {
  const { client, confirm } = useApp();
  const attempt = useAttempt();
  const pin = usePinning();
  const [reported, setReported] = useState<Message | null>(null);
  const [inspected, setInspected] = useState<Message | null>(null);
  const recall = async ({ id }: Message) => {
    if (await confirm(RECALL)) void attempt(client.recall(id));
  };
  const { mayReact, mayWrite, mayPin = false, mayRecallAll = false, hasInfo = false, openThread, mayStartThread = false } = rights;
  const actions = useLatestActions<MessageActions>({
    react: mayReact ? ({ id }, emoji, isOwn) => void attempt(isOwn ? client.unreact(id, emoji) : client.react(id, emoji)) : undefined,
    reply: mayWrite ? pane.reply : undefined,
    edit: mayWrite ? pane.edit : undefined,
    pin: mayPin ? (message) => void pin(message) : undefined,
    recall: (message) => void recall(message),
    mayRecallAll,
    suppress: ({ id }) => void attempt(client.suppressEmbeds(id)),
    report: setReported,
    info: hasInfo ? setInspected : undefined,
    openThread,
    startThread: mayStartThread ? openThread : undefined,
    jump: pane.jump,
  });
  return (
    <Context value={actions}>
      {children}
      {reported && <ReportDialog message={reported} close={() => setReported(null)} />}
      {inspected && <MessageInfo message={inspected} close={() => setInspected(null)} />}
    </Context>
  );
}
