/** Reports whether the page is used, hidden, or visible again. */
const MOVES_EVERY_MS = 1_000;

export function watchUse(used: () => void, hidden: () => void, signal: AbortSignal): void {
  let last = 0;
  const use = () => {
    if (document.hidden || Date.now() - last < MOVES_EVERY_MS) return;
    last = Date.now();
    used();
  };
  for (const each of ["keydown", "pointerdown", "pointermove", "wheel", "touchmove", "focus"]) addEventListener(each, use, { signal, passive: true, capture: true });
  // Browsers hide a page when its screen is locked.
  document.addEventListener("visibilitychange", () => (document.hidden ? hidden() : used()), { signal });
  if (document.hidden) hidden();
}
