import type { User } from "@confab/client";
import { useView } from "@confab/client/react";

import { useAttempt } from "../useMutation";
import { useApp } from "../appContext";

/** Whether the user has blocked a person; undefined until that is known. */
export function useIsBlocked(userId: string | undefined): boolean | undefined {
  const { client } = useApp();
  return useView(client.blockedUsers)?.some(({ id }) => id === userId);
}

/** Blocks and unblocks, and shows the user what the server refuses. */
export function useBlocking() {
  const { client, offerUndo } = useApp();
  const attempt = useAttempt();
  const block = (user: User) => attempt(client.blockUser(user));
  const unblock = (user: User) => attempt(client.unblockUser(user.id));
  return {
    block: async (user: User) => {
      const message = `${user.displayName} blocked. They cannot write to you privately, and are not notified.`;
      if ((await block(user)) !== null) offerUndo({ message, undo: () => void unblock(user) });
    },
    unblock: async (user: User) => {
      if ((await unblock(user)) !== null) offerUndo({ message: `${user.displayName} unblocked`, undo: () => void block(user) });
    },
  };
}
