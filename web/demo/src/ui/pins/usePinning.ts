import type { Message } from "@confab/client";

import { useAttempt } from "../useMutation";
import { useApp } from "../appContext";

/** Pins a message, or unpins it. */
export function usePinning() {
  const { client, offerUndo } = useApp();
  const attempt = useAttempt();
  const change = (id: string, pinned: boolean) => attempt(pinned ? client.pinMessage(id) : client.unpinMessage(id));
  return async ({ id, isPinned }: Pick<Message, "id" | "isPinned">) => {
    const undo = () => void change(id, isPinned);
    if ((await change(id, !isPinned)) !== null) offerUndo({ message: isPinned ? "Message unpinned" : "Message pinned for everybody here", undo });
  };
}
