import type { LiveEvent } from "../types";

export interface EventListeners {
  /** Calls the listener for each event, until the returned function is called. */
  add(listener: (event: LiveEvent) => void): () => void;
  call(event: LiveEvent): void;
}

export function eventListeners(): EventListeners {
  const listeners = new Set<(event: LiveEvent) => void>();
  return {
    add: (listener) => {
      const own: typeof listener = (event) => listener(event); // The same listener may be added twice.
      listeners.add(own);
      return () => void listeners.delete(own);
    },
    call: (event) => {
      for (const listener of [...listeners]) {
        try {
          listener(event);
        } catch (error) {
          console.error(error); // An error of one listener must not stop the others.
        }
      }
    },
  };
}
