/** Texts that were written but not sent, by conversation. They are stored on this device until they are sent, or the user signs out. */
import { disk } from "./disk";

export interface Drafts {
  of(conversationId: string): string;
  /** An empty text removes the draft. */
  keep(conversationId: string, text: string): void;
  /** Removes all drafts. */
  forget(): void;
}

/** place: the device, as in signIn.ts. */
export function openDrafts(place: string, me: string): Drafts {
  // Without dots, so that names that begin with it belong to this user.
  const prefix = `${place}.${encodeURIComponent(me).replaceAll(".", "%2E")}.draft.`;
  return {
    of: (conversationId) => disk.get(prefix + conversationId) ?? "",
    keep: (conversationId, text) => (text ? disk.set(prefix + conversationId, text) : disk.remove(prefix + conversationId)),
    forget: () => disk.names(prefix).forEach(disk.remove),
  };
}
