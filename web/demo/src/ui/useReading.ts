import { useEffect, useRef, useState } from "react";

import type { Outgoing } from "../confab/outbox";
import { isRetryable } from "../confab/outbox";
import { MarkReadDocument, type MessagePartsFragment, type SessionPartsFragment } from "../gql";
import { useOnline, useWorld } from "./world";

const TOGETHER_MS = 200;
const AGAIN_MS = 2000;

/**
 * Marks as read what has been on the screen while the user looked at it, and nothing else. Scrolling sends a mark at most every 200 ms.
 */
export function useMarkRead(session: SessionPartsFragment | null, watched: boolean) {
  const { client } = useWorld();
  const online = useOnline();
  const [seen, setSeen] = useState(-1);
  const [tries, setTries] = useState(0);
  const busy = useRef(false);
  const sent = useRef(-1);
  const waiting = useRef<(() => void) | null>(null);
  const due = session !== null && watched && online && (seen > session.readSeq || (session.unreadStatus && seen >= 0));

  useEffect(() => {
    waiting.current = null;
    if (!due) return;
    const upToSeq = Math.max(seen, session.readSeq);
    const mark = () => {
      sent.current = upToSeq;
      return client.mutation(MarkReadDocument, { conversationId: session.conversation.id, upToSeq }).toPromise();
    };
    if (busy.current) {
      if (upToSeq > sent.current) waiting.current = () => void mark();
      return;
    }
    busy.current = true;
    void mark().then(({ error }) => {
      const wait = error ? AGAIN_MS : TOGETHER_MS;
      setTimeout(() => {
        busy.current = false;
        if (!error || isRetryable(error)) setTries((count) => count + 1);
      }, wait);
    });
  }, [due, seen, tries]);
  // The user has left: a mark that waits for the one before is sent at once.
  useEffect(() => () => waiting.current?.(), []);

  return (seq: number) => setSeen((now) => Math.max(now, seq));
}

interface Shown {
  me: string;
  session: SessionPartsFragment | null;
  messages: MessagePartsFragment[];
  outgoing: Outgoing[];
  ready: boolean;
  /** True if the newest message is among these. */
  live: boolean;
}

/**
 * The seq after which the line "New messages" is, or null if there is none. The line is above what was unread when the conversation
 * was opened, or arrived while the user did not see it. The user's own next message removes it.
 *
 * Returns also a function that tells which message was seen last.
 */
export function useNewMessagesLine({ me, session, messages, outgoing, ready, live }: Shown) {
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
    const readTo = Math.max(seen.current, session?.readSeq ?? -1);
    const unseen = messages.filter((each) => each.seq > readTo && each.sender.id !== me && each.contentType !== "SYSTEM");
    const first = unseen.find((each) => each.seq > before);
    if (first && (line === null || first === unseen[0])) setLine(first.seq - 1);
  }, [present, newest]);

  // When the conversation is opened: at once, because the list scrolls to the line.
  const [opened, setOpened] = useState(false);
  if (ready && !opened) {
    setOpened(true);
    if (session && session.unreadCount > 0) setLine(session.readSeq);
  }

  const replied = outgoing.some((each) => !each.failure) || (line !== null && messages.some((each) => each.seq > line && each.sender.id === me && each.contentType !== "SYSTEM"));
  return [replied ? null : line, (seq: number) => void (seen.current = Math.max(seen.current, seq))] as const;
}
