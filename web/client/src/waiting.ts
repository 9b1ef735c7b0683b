/** Timers that end together, and promises that are settled together. */
import type { ConfabError } from "./types";

export interface Timers {
  /** Calls the function after this time, unless stop() was called before. */
  later(ms: number, run: () => void): void;
  stop(): void;
}

export function startTimers(): Timers {
  const timers = new Set<ReturnType<typeof setTimeout>>();
  let stopped = false;
  return {
    later: (ms, run) => {
      if (stopped) return;
      const timer = setTimeout(() => (timers.delete(timer), run()), ms);
      timers.add(timer);
    },
    stop: () => {
      stopped = true;
      timers.forEach(clearTimeout);
    },
  };
}

export interface Waiters {
  wait(): Promise<void>;
  /** Resolves all promises, or rejects them with an error. */
  settle(error?: ConfabError): void;
}

export function startWaiters(): Waiters {
  let waiting: { resolve(): void; reject(error: ConfabError): void }[] = [];
  return {
    wait: () => new Promise((resolve, reject) => waiting.push({ resolve, reject })),
    settle: (error) => {
      const all = waiting;
      waiting = [];
      all.forEach((each) => (error ? each.reject(error) : each.resolve()));
    },
  };
}
