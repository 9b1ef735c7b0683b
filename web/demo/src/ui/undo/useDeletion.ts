import type { Session } from "@confab/client";
import { useSyncExternalStore } from "react";

import { useWorld } from "../world";

/** Deletes conversations from the list: at once in the list, and on the server when it can no longer be undone. */
export function useDeletion() {
  const { deletions, offerUndo, tell } = useWorld();
  useSyncExternalStore(deletions.onChange, deletions.version);
  return {
    isDeleted: deletions.isDeleted,
    begin: (session: Session, title: string) => {
      const { id } = session.conversation;
      deletions.begin(session);
      const settle = async () => {
        const refusal = await deletions.settle(id);
        if (refusal) tell(refusal);
      };
      const said = `${title} deleted from your list`;
      offerUndo({ said, undo: () => deletions.takeBack(id), settle: () => void settle() });
    },
  };
}
