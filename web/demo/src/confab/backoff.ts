const LONGEST_WAIT_MS = 10_000;

/** Milliseconds to wait before the next attempt: doubling, with jitter, so that not all clients reconnect to a restarted server at once. */
export const backoff = (tries: number) => Math.min(LONGEST_WAIT_MS, 300 * 2 ** tries) * (0.5 + Math.random());
