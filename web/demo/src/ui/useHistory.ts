import { useEffect, useState } from "react";

import { MessagesDocument, type SessionPartsFragment } from "../gql";
import { useAsked, useWorld } from "./world";

const AT_ONCE = 100;

/** The history of a conversation, from the newest message back to the oldest that was needed: first to the first unread one. */
export function useHistory(conversationId: string, session: SessionPartsFragment | null) {
  const { client } = useWorld();
  const [{ data }] = useAsked({ query: MessagesDocument, variables: { conversationId } });
  const [gaveUp, setGaveUp] = useState(false);
  const messages = data?.messages?.edges.map((edge) => edge.node) ?? [];
  const older = data?.messages?.pageInfo.hasPreviousPage ? data.messages.pageInfo.startCursor : null;

  const loadOlder = async () => void (await client.query(MessagesDocument, { conversationId, before: older }).toPromise());

  /** Loads until the message with this seq, or an older one, is there. False if the network is away. */
  const loadBackTo = async (seq: number) => {
    for (let from = older, first = messages[0]?.seq ?? 0; from && first > seq; ) {
      const page = (await client.query(MessagesDocument, { conversationId, last: AT_ONCE, before: from }).toPromise()).data?.messages;
      if (!page) return false;
      first = page.edges[0]?.node.seq ?? 0;
      from = page.pageInfo.hasPreviousPage ? (page.pageInfo.startCursor ?? null) : null;
    }
    return true;
  };

  // Where the unread messages begin when the conversation is opened.
  const [readTo, setReadTo] = useState<number | null>(null);
  if (readTo === null && session) setReadTo(session.unreadCount > 0 ? session.readSeq : session.writeSeq);
  const reaches = readTo === null || !older || (messages[0]?.seq ?? 0) <= readTo;
  useEffect(() => {
    if (data && !reaches) void loadBackTo(readTo).then((reached) => reached || setGaveUp(true));
  }, [!data, reaches]);

  return { messages, loaded: !!data && (reaches || gaveUp), loadOlder: older ? loadOlder : null, loadBackTo };
}
