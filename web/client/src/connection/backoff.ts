const MAX_WAIT_MS = 10_000;

/**
 * Milliseconds to wait before the next attempt. They double with each attempt. Jitter keeps clients from reconnecting to a restarted
 * server all at once. chance: from 0 to 1.
 */
export const backoff = (tries: number, chance = Math.random()) => Math.min(MAX_WAIT_MS, 300 * 2 ** tries) * (0.5 + chance);
