import type { Storage } from "./types";

export interface Disk {
  get(name: string): string | null;
  set(name: string, value: string): void;
  remove(name: string): void;
  names(prefix: string): string[];
}

/** Data on this device; in memory if there is no storage, or if it is forbidden or full. */
export function openDisk(given?: Storage): Disk {
  const memory = new Map<string, string>();
  const tried = <T>(use: (storage: Storage) => T): T | undefined => {
    try {
      const storage = given ?? globalThis.localStorage;
      return storage ? use(storage) : undefined;
    } catch {
      return undefined;
    }
  };
  return {
    get: (name) => memory.get(name) ?? tried((storage) => storage.getItem(name)) ?? null,
    set: (name, value) => {
      if (tried((storage) => (storage.setItem(name, value), true))) memory.delete(name);
      else memory.set(name, value);
    },
    remove: (name) => {
      memory.delete(name);
      tried((storage) => storage.removeItem(name));
    },
    names: (prefix) => {
      const stored = tried((storage) => Array.from({ length: storage.length }, (_, index) => storage.key(index) ?? "")) ?? [];
      return [...new Set([...stored, ...memory.keys()])].filter((name) => name.startsWith(prefix));
    },
  };
}
