import type { User } from "@confab/client";
import { useSyncExternalStore } from "react";

import { useWorld } from "../world";

/** Whether the user has blocked a person; undefined until that is known. */
export function useIsBlocked(userId: string | undefined): boolean | undefined {
  const { blocks } = useWorld();
  return useSyncExternalStore(blocks.onChange, () => blocks.all()?.some(({ id }) => id === userId));
}

/** Blocks and unblocks, and shows the user what the server refuses. */
export function useBlocking() {
  const { blocks, offerUndo, tell } = useWorld();
  const change = async (kind: "block" | "unblock", user: User) => {
    const refusal = await blocks[kind](user);
    if (refusal) tell(refusal);
    return !refusal;
  };
  const act = async (kind: "block" | "unblock", user: User) => {
    const opposite = kind === "block" ? "unblock" : "block";
    const said = kind === "block" ? `${user.displayName} blocked. They cannot write to you privately, and are not told.` : `${user.displayName} unblocked`;
    if (await change(kind, user)) offerUndo({ said, undo: () => void change(opposite, user) });
  };
  return { block: (user: User) => act("block", user), unblock: (user: User) => act("unblock", user) };
}
