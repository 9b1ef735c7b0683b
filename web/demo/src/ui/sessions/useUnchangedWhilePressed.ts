import { useEffect, useState, type PointerEvent } from "react";

/** On a touch screen, the click follows some time after the pointer is released. */
const CLICK_MS = 100;

/**
 * The value that was displayed when the pointer was pressed, until the click that follows; otherwise the present value. Such a list
 * does not move under the pointer: a browser gives a click to the pressed row only if the row is still there on release.
 */
export function useUnchangedWhilePressed<Value>(present: Value) {
  const [held, setHeld] = useState<{ value: Value } | null>(null);
  const shown = held ? held.value : present;

  useEffect(() => {
    if (!held) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const release = () => {
      clearTimeout(timer);
      timer = setTimeout(() => setHeld(null), CLICK_MS);
    };
    const ends = ["pointerup", "pointercancel", "contextmenu"] as const;
    ends.forEach((each) => addEventListener(each, release, true));
    return () => {
      clearTimeout(timer);
      ends.forEach((each) => removeEventListener(each, release, true));
    };
  }, [held]);

  const onPointerDown = (event: PointerEvent) => event.button === 0 && setHeld({ value: shown });
  return [shown, onPointerDown] as const;
}
