import type { User } from "@confab/client";
import { useView } from "@confab/client/react";

import { useAttempt } from "../useDo";
import { useWorld } from "../world";

/** Whether the user has blocked a person; undefined until that is known. */
export function useIsBlocked(userId: string | undefined): boolean | undefined {
  const { client } = useWorld();
  return useView(client.blockedUsers)?.some(({ id }) => id === userId);
}

/** Blocks and unblocks, and shows the user what the server refuses. */
export function useBlocking() {
  const { client, offerUndo } = useWorld();
  const attempt = useAttempt();
  const block = (user: User) => attempt(client.blockUser(user));
  const unblock = (user: User) => attempt(client.unblockUser(user.id));
  return {
    block: async (user: User) => {
      const said = `${user.displayName} blocked. They cannot write to you privately, and are not told.`;
      if ((await block(user)) !== null) offerUndo({ said, undo: () => void unblock(user) });
    },
    unblock: async (user: User) => {
      if ((await unblock(user)) !== null) offerUndo({ said: `${user.displayName} unblocked`, undo: () => void block(user) });
    },
  };
}
