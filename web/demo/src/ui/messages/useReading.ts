import type { ConfabError, Message, PendingMessage, Session } from "@confab/client";
import { useEffect, useRef, useState } from "react";

import { useOnline, useApp } from "../appContext";

const MIN_INTERVAL_MS = 200;
const RETRY_MS = 2000;

/** How far the user has read a conversation. */
export type ReadState = Pick<Session, "readSeq" | "unreadCount" | "unreadStatus">;

/**
 * Marks only those messages as read that were on the screen while the user looked at it. Scrolling sends a mark at most every 200 ms.
 */
export function useMarkRead(conversationId: string, read: ReadState | null | undefined, watched: boolean) {
  const { client } = useApp();
  const online = useOnline();
  const [seen, setSeen] = useState(-1);
  const [tries, setTries] = useState(0);
  const busy = useRef(false);
  const sent = useRef(-1);
  const waiting = useRef<(() => void) | null>(null);
  const due = !!read && watched && online && (seen > read.readSeq || (read.unreadStatus && seen >= 0));

  useEffect(() => {
    waiting.current = null;
    if (!due) return;
    const upToSeq = Math.max(seen, read.readSeq);
    const mark = () => {
      sent.current = upToSeq;
      return client.markRead(conversationId, upToSeq);
    };
    if (busy.current) {
      if (upToSeq > sent.current) waiting.current = () => void mark().catch(() => {});
      return;
    }
    busy.current = true;
    const again = (wait: number, tryAgain: boolean) =>
      setTimeout(() => {
        busy.current = false;
        if (tryAgain) setTries((count) => count + 1);
      }, wait);
    mark().then(
      () => again(MIN_INTERVAL_MS, true),
      (error: ConfabError) => again(RETRY_MS, error.isRetryable),
    );
  }, [due, seen, tries]);
  // The user has left: a mark that waits for the one before is sent at once.
  useEffect(() => () => waiting.current?.(), []);

  return (seq: number) => setSeen((now) => Math.max(now, seq));
}

interface Options {
  me: string;
  read: ReadState | null | undefined;
  messages: readonly Message[];
  pending: readonly PendingMessage[];
  ready: boolean;
  /** True if the newest message is among these. */
  live: boolean;
}

/**
 * The seq after which the line "New messages" is, or null if there is none. The line is above what was unread when the conversation
 * was opened, or arrived while the user did not see it. The user's own next message removes it.
 *
 * Also returns a function to report the last message that was seen.
 */
export function useNewMessagesLine({ me, read, messages, pending, ready, live }: Options) {
  const [line, setLine] = useState<number | null>(null);
  const seen = useRef(-1);
  const known = useRef<number | null>(null); // The newest message when this was last rendered, if the newest was there.
  const newest = messages.at(-1)?.seq ?? 0;
  const present = ready && live;

  // After the list has scrolled and reported the seen messages.
  useEffect(() => {
    if (!present) return;
    const before = known.current;
    known.current = newest;
    if (before === null) return;
    const readTo = Math.max(seen.current, read?.readSeq ?? -1);
    const unseen = messages.filter((each) => each.seq > readTo && each.sender.id !== me && each.contentType !== "SYSTEM");
    const first = unseen.find((each) => each.seq > before);
    if (first && (line === null || first === unseen[0])) setLine(first.seq - 1);
  }, [present, newest]);

  // When the conversation is opened: at once, because the list scrolls to the line.
  const [opened, setOpened] = useState(false);
  if (ready && !opened) {
    setOpened(true);
    if (read && read.unreadCount > 0) setLine(read.readSeq);
  }

  const replied = pending.some((each) => !each.failure) || (line !== null && messages.some((each) => each.seq > line && each.sender.id === me && each.contentType !== "SYSTEM"));
  return [replied ? null : line, (seq: number) => void (seen.current = Math.max(seen.current, seq))] as const;
}
