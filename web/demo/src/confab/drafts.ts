/** Unsent texts by conversation. They are stored on this device until they are sent, or the user signs out. */
import { disk } from "./disk";

export interface Drafts {
  get(conversationId: string): string;
  /** An empty text removes the draft. */
  set(conversationId: string, text: string): void;
  /** Removes all drafts. */
  clear(): void;
}

/** storagePrefix: as in signIn.ts. */
export function openDrafts(storagePrefix: string, me: string): Drafts {
  // Without dots, so that names that begin with it belong to this user.
  const prefix = `${storagePrefix}.${encodeURIComponent(me).replaceAll(".", "%2E")}.draft.`;
  return {
    get: (conversationId) => disk.get(prefix + conversationId) ?? "",
    set: (conversationId, text) => (text ? disk.set(prefix + conversationId, text) : disk.remove(prefix + conversationId)),
    clear: () => disk.names(prefix).forEach(disk.remove),
  };
}
