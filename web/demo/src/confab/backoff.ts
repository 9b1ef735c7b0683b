const LONGEST_WAIT_MS = 10_000;

/**
 * Milliseconds to wait before the next attempt: doubling, with jitter, so that not all clients reconnect to a restarted server at
 * once. chance: from 0 to 1.
 */
export const backoff = (tries: number, chance = Math.random()) => Math.min(LONGEST_WAIT_MS, 300 * 2 ** tries) * (0.5 + chance);
