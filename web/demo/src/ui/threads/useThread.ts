import { threadId } from "@confab/client";
import { useEffect, useState } from "react";

import { isRetryable } from "../../confab/outbox";
import { FollowThreadDocument, LockThreadDocument, MessageAtDocument, OneSessionDocument, RoomEventsDocument, ThreadDocument } from "../../gql";
import { useDo } from "../useDo";
import { useAsked, useWorld } from "../world";

/** The thread of the message with this seq, and its events while it is displayed. It may have no replies yet. */
export function useThread(conversationId: string, seq: number) {
  const { client } = useWorld();
  const run = useDo();
  const id = threadId(conversationId, seq);
  const [asked, askAgain] = useAsked({ query: ThreadDocument, variables: { id } });
  const thread = asked.data?.thread ?? null;
  const isNew = asked.data?.thread === null;
  const [found, findAgain] = useAsked({ query: MessageAtDocument, variables: { conversationId, seq }, pause: !isNew });
  const [{ data: own, fetching }] = useAsked({ query: OneSessionDocument, variables: { conversationId: id } });
  const session = own?.session ?? null;
  const parent = thread?.parent ?? found.data?.messages?.edges.find(({ node }) => node.seq === seq)?.node ?? null;
  const error = asked.error ?? found.error;

  const [hasEnded, setHasEnded] = useState(false);
  const rev = thread?.rev;
  const isKnown = rev !== undefined;
  useEffect(() => {
    if (!isKnown) return;
    const events = client.subscription(RoomEventsDocument, { channels: [{ id, rev }] });
    return events.subscribe((event) => event.data?.channelEvents.__typename === "AccessEnded" && setHasEnded(true)).unsubscribe;
  }, [id, isKnown]);

  return {
    id,
    /** Null without replies. */
    thread,
    /** The message that the thread belongs to; null if there is none. */
    parent,
    session,
    isLoading: !parent && !hasEnded && (!asked.data || (isNew && !found.data)),
    sessionIsLoaded: !fetching,
    hasFailed: !!error && isRetryable(error) && !parent,
    again: () => (askAgain({ requestPolicy: "network-only" }), isNew && findAgain({ requestPolicy: "network-only" })),
    hasEnded,
    isFollowed: session?.status === "ACTIVE",
    follow: (follow: boolean) => run(FollowThreadDocument, { id, follow }),
    lock: (locked: boolean) => run(LockThreadDocument, { id, locked }),
  };
}
