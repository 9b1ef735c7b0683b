import type { Storage } from "@confab/client";

/** The part of AsyncStorage that is needed. */
export interface AsyncDisk {
  getAllKeys(): Promise<readonly string[]>;
  getItem(name: string): Promise<string | null>;
  setItem(name: string, value: string): Promise<void>;
  removeItem(name: string): Promise<void>;
}

const PREFIX = "confab.";

/**
 * A storage for createClient: it needs one that answers at once, and AsyncStorage does not. So everything is read into memory
 * first, and written later. Open it once, before createClient.
 */
export async function openStorage(disk: AsyncDisk): Promise<Storage> {
  const names = (await disk.getAllKeys()).filter((name) => name.startsWith(PREFIX));
  const entries = await Promise.all(names.map(async (name) => [name, await disk.getItem(name)] as const));
  const items = new Map(entries.flatMap(([name, value]) => (value === null ? [] : [[name, value] as const])));
  let written: Promise<void> = Promise.resolve();
  // One write after the other: a message that is sent and removed at once must not come back.
  const write = (change: () => Promise<void>) => {
    written = written.then(change).catch((error: unknown) => console.warn("The disk could not be written", error));
  };
  return {
    get length() {
      return items.size;
    },
    key: (index) => [...items.keys()][index] ?? null,
    getItem: (name) => items.get(name) ?? null,
    setItem: (name, value) => {
      items.set(name, value);
      write(() => disk.setItem(name, value));
    },
    removeItem: (name) => {
      items.delete(name);
      write(() => disk.removeItem(name));
    },
  };
}
