/**
 * Data stored on this device: in localStorage, or in this page's memory if the browser's storage is
 * disabled or full.
 */
const memory = new Map<string, string>();

function storage(): Storage | null {
  try {
    return localStorage;
  } catch {
    return null;
  }
}

export const disk = {
  get: (name: string) => memory.get(name) ?? storage()?.getItem(name) ?? null,
  set(name: string, value: string) {
    try {
      localStorage.setItem(name, value);
      memory.delete(name);
    } catch {
      memory.set(name, value);
    }
  },
  remove(name: string) {
    memory.delete(name);
    storage()?.removeItem(name);
  },
  names: (prefix: string) => [...new Set([...Object.keys(storage() ?? {}), ...memory.keys()])].filter((name) => name.startsWith(prefix)),
};
