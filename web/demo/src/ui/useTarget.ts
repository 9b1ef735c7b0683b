import { useEffect, useRef, useState } from "react";

import { entryNow, useEntry } from "./route";

export interface Target {
  seq: number;
  /** Only scrolled to: neither focused nor highlighted. */
  isQuiet?: boolean;
}

interface History {
  goTo: (seq: number) => Promise<boolean>;
  goToNewest: () => void;
}

/** Where a conversation begins when it is opened: at the message that the address names, or where the user left it for a result of the search. */
export function useBeginning(seq: number | null): Target | null {
  return useState<Target | null>(() => {
    const { place } = entryNow();
    return place ? { seq: place, isQuiet: true } : place === undefined && seq !== null ? { seq } : null;
  })[0];
}

/**
 * The message to show in an open conversation. It follows the address and the browser's history: forward to a result of the search, and
 * back to where the user was.
 */
export function useTarget(seq: number | null, beginning: Target | null, { goTo, goToNewest }: History) {
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
    if (isBack && entry.place) void show({ seq: entry.place, isQuiet: true });
    if (isBack && entry.place === 0) toNewest();
  }, [entry]);

  return { target, fromEnd, show, toNewest };
}
