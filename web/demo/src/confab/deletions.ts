/**
 * Conversations that are being deleted from the list, while the user can still undo it.
 *
 * Guarantees: a deletion is sent to the server only when it is settled. A conversation that gets a message before that stays, because
 * the user has not seen the message.
 */
import type { ConfabClient, Session } from "@confab/client";

import { errorText } from "./errorText";

type Deleted = Pick<Session, "writeTs"> & { conversation: { id: string } };

export interface Deletions {
  /** Whether the list leaves it out. */
  isDeleted(session: Deleted): boolean;
  /** Changes with each deletion. */
  version(): number;
  onChange(listener: () => void): () => void;
  begin(session: Deleted): void;
  cancel(conversationId: string): void;
  /** Deletes the conversation on the server. Resolves to an error message, or null. */
  settle(conversationId: string): Promise<string | null>;
}

export function openDeletions(client: ConfabClient): Deletions {
  /** writeTs by conversation. */
  const begun = new Map<string, number>();
  const listeners = new Set<() => void>();
  let version = 0;
  const changed = () => ((version += 1), listeners.forEach((listener) => listener()));
  const end = (conversationId: string) => {
    if (begun.delete(conversationId)) changed();
  };
  return {
    isDeleted: ({ conversation, writeTs }) => begun.get(conversation.id) === writeTs,
    version: () => version,
    onChange: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    begin: ({ conversation, writeTs }) => (begun.set(conversation.id, writeTs), changed()),
    cancel: end,
    settle: async (conversationId) => {
      const writeTs = begun.get(conversationId);
      if (writeTs === undefined) return null;
      const now = client.session(conversationId).get();
      if (now && now.writeTs !== writeTs) return (end(conversationId), null);
      try {
        await client.deleteSession(conversationId);
        return null;
      } catch (error) {
        return errorText(error);
      } finally {
        end(conversationId);
      }
    },
  };
}
