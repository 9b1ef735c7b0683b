import type { Session } from "@confab/client";
import { useSyncExternalStore } from "react";

import { useApp } from "../appContext";

/** Deletes conversations from the list: at once in the list, and on the server when it can no longer be undone. */
export function useDeletion() {
  const { deletions, offerUndo, showToast } = useApp();
  useSyncExternalStore(deletions.onChange, deletions.version);
  return {
    isDeleted: deletions.isDeleted,
    begin: (session: Session, title: string) => {
      const { id } = session.conversation;
      deletions.begin(session);
      const settle = async () => {
        const refusal = await deletions.settle(id);
        if (refusal) showToast(refusal);
      };
      const message = `${title} deleted from your list`;
      offerUndo({ message, undo: () => deletions.cancel(id), settle: () => void settle() });
    },
  };
}
