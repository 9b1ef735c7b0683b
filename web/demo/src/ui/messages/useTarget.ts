import { useEffect, useRef, useState } from "react";

import { entryNow, useEntry } from "../route";

export interface Target {
  seq: number;
  /** Only scrolled to: neither focused nor highlighted. */
  isQuiet?: boolean;
}

interface HistoryNavigation {
  goTo: (seq: number) => Promise<boolean>;
  goToNewest: () => void;
}

/**
 * Where a conversation begins when it is opened: at the message that the address names, where the user left it for a result of the
 * search, or at the message whose thread is open.
 */
export function useBeginning(seq: number | null, threadSeq: number | null = null): Target | null {
  return useState<Target | null>(() => {
    const { seqOnScreen } = entryNow();
    if (seqOnScreen !== undefined) return seqOnScreen ? { seq: seqOnScreen, isQuiet: true } : null;
    return seq !== null ? { seq } : threadSeq !== null ? { seq: threadSeq, isQuiet: true } : null;
  })[0];
}

/**
 * The message to show in an open conversation. It follows the address and the browser's history: forward to a result of the search, and
 * back to where the user was. The history keeps no position in a thread.
 */
export function useTarget(seq: number | null, beginning: Target | null, { goTo, goToNewest }: HistoryNavigation, isThread = false) {
  const [target, setTarget] = useState(beginning);
  const [fromEnd, setFromEnd] = useState(false);
  const entry = useEntry();
  const before = useRef(entry);

  const toNewest = () => {
    setTarget(null);
    setFromEnd(true);
    goToNewest();
  };
  /** Returns false without a network. */
  const show = async (wanted: Target) => {
    const isThere = await goTo(wanted.seq);
    if (isThere) setTarget(wanted);
    return isThere;
  };

  useEffect(() => {
    const isForward = entry.number > before.current.number;
    const isBack = entry.number < before.current.number;
    before.current = entry;
    if (isForward && !entry.search && seq !== null) void show({ seq });
    if (isThread) return;
    if (isBack && entry.seqOnScreen) void show({ seq: entry.seqOnScreen, isQuiet: true });
    if (isBack && entry.seqOnScreen === 0) toNewest();
  }, [entry]);

  return { target, fromEnd, show, toNewest };
}
