import type { View } from "../types";

/** Listeners by topic, and how often each topic has changed. */
export class Topics {
  readonly #listeners = new Map<string, Set<() => void>>();
  readonly #versions = new Map<string, number>();

  version(topic: string): number {
    return this.#versions.get(topic) ?? 0;
  }

  /** Listeners may read all views, so call this after all data is applied. */
  changed(topic: string): void {
    this.#versions.set(topic, this.version(topic) + 1);
    for (const listener of [...(this.#listeners.get(topic) ?? [])]) {
      try {
        listener();
      } catch (error) {
        console.error(error); // An error of one listener must not stop the others.
      }
    }
  }

  on(topic: string, listener: () => void): () => void {
    const own = () => listener(); // The same listener may be added twice.
    const listeners = this.#listeners.get(topic) ?? new Set();
    this.#listeners.set(topic, listeners.add(own));
    return () => void listeners.delete(own);
  }
}

/** Returns the view of this name, made at the first request. Views are compared by identity, so there is one for each name. */
export function cached<T>(views: Map<string, T>, name: string, make: () => T): T {
  const found = views.get(name) ?? make();
  views.set(name, found);
  return found;
}

/** A view that is computed again only when one of its topics has changed. */
export function view<T>(topics: Topics, names: readonly string[], compute: () => T): View<T> {
  let seen = -1;
  let value: T;
  return {
    get: () => {
      const version = names.reduce((sum, name) => sum + topics.version(name), 0);
      if (version !== seen) [seen, value] = [version, compute()];
      return value;
    },
    subscribe: (listener) => {
      const stops = names.map((name) => topics.on(name, listener));
      return () => stops.forEach((stop) => stop());
    },
  };
}
