import type { History, HistoryState, Message, Session } from "@confab/client";
import { useView } from "@confab/client/react";
import { useEffect, useRef, useState } from "react";

const NONE: readonly Message[] = [];

const includes = ({ messages, hasOlder, hasNewer }: HistoryState, seq: number) =>
  !messages.length || ((!hasOlder || messages[0]!.seq <= seq) && (!hasNewer || seq <= messages.at(-1)!.seq));

/**
 * A part of a history without gaps, which grows at both ends: at first around the seq `beginAt`; without one, from where the unread
 * messages begin, else from the newest message. While another part is being loaded, the current one stays displayed.
 *
 * session: undefined until it is known.
 */
export function useHistory(history: History, session: Pick<Session, "unreadCount" | "readSeq"> | null | undefined, beginAt: number | null) {
  const now = useView(history);
  const [part, setPart] = useState(0);
  const [opened, setOpened] = useState(false);
  const wanted = useRef(part);
  const parts = useRef(part);
  const displayed = useRef(now);
  if (wanted.current === part && (now.status !== "loading" || displayed.current.status === "loading")) displayed.current = now;
  const { status, messages, hasOlder, hasNewer } = displayed.current;

  /** Resolves to false if the messages could not be loaded. */
  const jump = async (seq: number | null): Promise<boolean> => {
    const mine = (parts.current += 1);
    wanted.current = mine;
    try {
      await history.jumpTo(seq);
    } catch {
      if (wanted.current !== mine) return false;
      // These are loaded.
      await history.jumpTo(hasNewer ? (messages.at(-1)?.seq ?? null) : null).catch(() => {});
      if (wanted.current === mine) wanted.current = part;
      return false;
    }
    if (wanted.current === mine) setPart(mine);
    return true;
  };

  const isReady = status !== "loading" && session !== undefined;
  const first = beginAt ?? (session && session.unreadCount > 0 ? session.readSeq + 1 : null);
  const isElsewhere = first !== null && !includes(displayed.current, first);
  if (isReady && !opened && !isElsewhere) setOpened(true);
  const mustJump = isReady && !opened && isElsewhere;
  useEffect(() => {
    if (mustJump) void jump(first).then(() => setOpened(true));
  }, [mustJump]);

  const load = { older: () => history.loadOlder().catch(() => {}), newer: () => history.loadNewer().catch(() => {}) };
  return {
    messages: opened ? messages : NONE,
    /** The user's messages that are not stored yet. Empty while the newest message is not loaded. */
    pending: opened && hasNewer ? [] : now.pending,
    loaded: opened && status === "ready",
    /** True if the user may not read the history. */
    isRefused: now.status === "failed",
    /** Changes when another part is displayed. */
    part,
    loadOlder: opened && hasOlder ? load.older : null,
    /** Null if the newest message is loaded. */
    loadNewer: opened && hasNewer ? load.newer : null,
    /** Displays the part with this message, or with its neighbours if it was removed. Returns false without a network. */
    goTo: async (seq: number) => messages.some((each) => each.seq === seq) || jump(seq),
    goToNewest: () => void jump(null),
  };
}
