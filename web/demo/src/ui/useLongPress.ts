import { useEffect, useRef, type MouseEvent, type PointerEvent } from "react";

const LONG_PRESS_MS = 450;
const MOVED_PX = 10;
/** On a touch screen, the click follows some time after the finger is lifted. */
const CLICK_MS = 300;

/** Drops the click that follows when the finger is lifted, on any element. Ends with the next press. */
function dropNextClick() {
  const drop = (event: Event) => (event.preventDefault(), event.stopPropagation());
  const end = () => removeEventListener("click", drop, true);
  const lifted = () => setTimeout(end, CLICK_MS);
  addEventListener("click", drop, true);
  for (const each of ["pointerup", "pointercancel"]) addEventListener(each, lifted, { capture: true, once: true });
  addEventListener("pointerdown", end, { capture: true, once: true });
}

/**
 * Event handlers for a long press on a touch screen. Moving the finger, scrolling or a second finger cancels it. The click that follows
 * a long press does nothing, and the browser's own menu does not open. except: a selector of elements that ignore long presses.
 */
export function useLongPress(pressed: () => void, { except = "input, textarea, video, audio" } = {}) {
  const press = useRef<{ timer: ReturnType<typeof setTimeout>; x: number; y: number } | null>(null);
  const isDone = useRef(false);
  const cancel = () => {
    clearTimeout(press.current?.timer);
    press.current = null;
  };
  useEffect(() => cancel, []);
  return {
    onPointerDown: (event: PointerEvent) => {
      cancel();
      isDone.current = false;
      if (event.pointerType === "mouse" || !event.isPrimary || (event.target as HTMLElement).closest(except)) return;
      const { clientX: x, clientY: y } = event;
      const timer = setTimeout(() => {
        press.current = null;
        isDone.current = true;
        getSelection()?.removeAllRanges();
        pressed();
        dropNextClick();
      }, LONG_PRESS_MS);
      press.current = { timer, x, y };
    },
    onPointerMove: ({ clientX, clientY }: PointerEvent) => {
      const { x, y } = press.current ?? { x: clientX, y: clientY };
      if (Math.hypot(clientX - x, clientY - y) > MOVED_PX) cancel();
    },
    onPointerUp: cancel,
    // The browser takes over, for example to scroll.
    onPointerCancel: cancel,
    onContextMenu: (event: MouseEvent) => {
      if (press.current || isDone.current) event.preventDefault();
    },
  };
}
