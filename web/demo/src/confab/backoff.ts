const LONGEST_WAIT_MS = 10_000;

/** Milliseconds to wait before another try: doubling, with jitter, so that a server that restarts isn't met by all its clients at once. */
export const backoff = (tries: number) => Math.min(LONGEST_WAIT_MS, 300 * 2 ** tries) * (0.5 + Math.random());
