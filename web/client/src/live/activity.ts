const isPage = () => typeof document !== "undefined" && typeof document.addEventListener === "function";

/** Calls the listener when the page is displayed again. Returns the function that ends this. */
export function whenVisible(listener: () => void): () => void {
  if (!isPage()) return () => {};
  const own = () => document.hidden || listener();
  document.addEventListener("visibilitychange", own);
  return () => document.removeEventListener("visibilitychange", own);
}

/** In browsers: reports whether the page is used, hidden, or visible again. Returns the function that ends this. */
const MOVES_EVERY_MS = 1_000;

export function watchActivity(used: () => void, hidden: () => void): () => void {
  if (!isPage()) return () => {};
  const ends = new AbortController();
  const { signal } = ends;
  let last = 0;
  const use = () => {
    const now = Date.now();
    if (document.hidden || (now >= last && now - last < MOVES_EVERY_MS)) return;
    last = now;
    used();
  };
  for (const each of ["keydown", "pointerdown", "pointermove", "wheel", "touchmove", "focus"]) addEventListener(each, use, { signal, passive: true, capture: true });
  // Browsers hide a page when its screen is locked.
  document.addEventListener("visibilitychange", () => (document.hidden ? hidden() : used()), { signal });
  if (document.hidden) hidden();
  return () => ends.abort();
}
