import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { createPortal } from "react-dom";

import { onDialogs, topDialog } from "../Dialog";
import { Icon } from "../Icon";
import type { useUndo } from "./useUndo";
import "./undo.css";

const DISPLAY_MS = 8_000;
const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
const isShortcut = (event: KeyboardEvent) => event.key.toLowerCase() === "z" && (isMac ? event.metaKey : event.ctrlKey) && !event.altKey && !event.shiftKey;
const isWriting = (target: EventTarget | null) => target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/**
 * Shows what was done, with a button and a keyboard shortcut to undo it. It stays while it has the focus or the pointer. The element with
 * role=status is always in the page, because screen readers announce only changes inside existing elements.
 */
export function UndoBar({ offered, undo, settle }: ReturnType<typeof useUndo>) {
  const dialog = useSyncExternalStore(onDialogs, topDialog);
  const bar = useRef<HTMLDivElement>(null);
  const [isHeld, setIsHeld] = useState(false);
  useEffect(() => setIsHeld(false), [offered]);

  useEffect(() => {
    if (!offered || isHeld) return;
    const timer = setTimeout(settle, DISPLAY_MS);
    return () => clearTimeout(timer);
  }, [offered, isHeld]);

  useEffect(() => {
    if (!offered) return;
    const onKeyDown = (event: KeyboardEvent) => {
      if (!isShortcut(event) || isWriting(event.target)) return;
      event.preventDefault();
      leave(undo);
    };
    addEventListener("keydown", onKeyDown, { capture: true });
    addEventListener("pagehide", settle);
    return () => (removeEventListener("keydown", onKeyDown, { capture: true }), removeEventListener("pagehide", settle));
  }, [offered]);

  // An open dialog hides everything that is not a popover, and disables everything outside.
  useEffect(() => {
    if (bar.current?.isConnected && !bar.current.matches(":popover-open")) bar.current.showPopover();
  }, [offered, dialog]);

  /** The element that had the focus before: it gets the focus back. */
  const cameFrom = useRef<HTMLElement | null>(null);
  const leave = (act: () => void) => {
    const hadFocus = bar.current?.contains(document.activeElement);
    act();
    if (hadFocus && cameFrom.current?.isConnected) cameFrom.current.focus();
  };

  return createPortal(
    <div role="status">
      {offered && (
        <div
          ref={bar}
          className="undo"
          popover="manual"
          onPointerEnter={() => setIsHeld(true)}
          onPointerLeave={() => setIsHeld(bar.current!.contains(document.activeElement))}
          onFocus={(event) => {
            setIsHeld(true);
            if (!bar.current!.contains(event.relatedTarget as Node | null)) cameFrom.current = event.relatedTarget as HTMLElement | null;
          }}
          onBlur={(event) => bar.current!.contains(event.relatedTarget as Node | null) || setIsHeld(false)}
          onKeyDown={(event) => {
            if (event.key !== "Escape") return;
            event.preventDefault();
            event.stopPropagation();
            leave(settle);
          }}
        >
          <span>{offered.message}</span>
          <button className="link" aria-keyshortcuts={isMac ? "Meta+Z" : "Control+Z"} title={isMac ? "⌘Z" : "Ctrl Z"} onClick={() => leave(undo)}>Undo</button>
          <button className="icon" aria-label="Close this message" onClick={() => leave(settle)}><Icon name="close" /></button>
        </div>
      )}
    </div>,
    dialog ?? document.body,
  );
}
