import type { Message } from "@confab/client";

import { PinMessageDocument, PinnedMessagesDocument, UnpinMessageDocument } from "../../gql";
import { useDo } from "../useDo";
import { useAsked, useScreen, useWorld } from "../world";

/** The first page of a conversation's pinned messages, the latest pin first. pause: while there is no such conversation. */
export function usePinned(conversationId: string, pause = false) {
  const isThere = useScreen() === "there";
  const [{ data, error, fetching }, again] = useAsked({ query: PinnedMessagesDocument, variables: { conversationId }, pause: pause || !isThere });
  const page = data?.pinnedMessages;
  return {
    messages: page?.edges.map(({ node }) => node),
    more: page?.pageInfo.hasNextPage ? page.pageInfo.endCursor : null,
    failed: !!error && !page && !fetching,
    again: () => again({ requestPolicy: "network-only" }),
  };
}

/** Pins a message, or unpins it. */
export function usePinning() {
  const run = useDo();
  const { offerUndo } = useWorld();
  const change = (id: string, pinned: boolean) => (pinned ? run(PinMessageDocument, { id }) : run(UnpinMessageDocument, { id }));
  return async ({ id, isPinned }: Pick<Message, "id" | "isPinned">) => {
    if (await change(id, !isPinned)) offerUndo({ said: isPinned ? "Message unpinned" : "Message pinned for everybody here", undo: () => void change(id, isPinned) });
  };
}
