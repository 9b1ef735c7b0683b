import { useCallback, useRef, useState } from "react";

/** An action that was done, and how to undo it. */
export interface Undoable {
  /** "Dave Dyer muted" */
  message: string;
  undo: () => void;
  /** Called once when it can no longer be undone. */
  settle?: () => void;
}

/** The last action that can be undone. The next action settles it. */
export function useUndo() {
  const [offered, setOffered] = useState<Undoable | null>(null);
  const last = useRef<Undoable | null>(null);
  const replace = useCallback((next: Undoable | null) => {
    last.current?.settle?.();
    last.current = next;
    setOffered(next);
  }, []);
  const undo = useCallback(() => {
    const taken = last.current;
    last.current = null;
    setOffered(null);
    taken?.undo();
  }, []);
  return { offered, offer: replace as (action: Undoable) => void, settle: useCallback(() => replace(null), []), undo };
}
