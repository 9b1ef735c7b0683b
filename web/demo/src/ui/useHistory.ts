import { useState } from "react";

import { MessagesAroundDocument, MessagesDocument, NewerMessagesDocument, OlderMessagesDocument, type SessionPartsFragment } from "../gql";
import { useAsked, useScreen, useWorld } from "./world";

interface Place {
  /** The messages around this seq; null: the newest ones. */
  around: number | null;
  /** The number of parts of the history that were displayed so far. */
  number: number;
}

/**
 * A part of a conversation's history without gaps, which grows at both ends: at first around the seq `beginAt`; without one, from where
 * the unread messages begin, else from the newest message.
 */
export function useHistory(conversationId: string, session: SessionPartsFragment | null, sessionLoaded: boolean, beginAt: number | null) {
  const { client } = useWorld();
  const [place, setPlace] = useState<Place>({ around: beginAt, number: 0 });
  const [opened, setOpened] = useState(false);
  // Not before the first screen: everything after its cursor arrives as events, so nothing falls between the two.
  const pause = useScreen() !== "there";
  const newest = useAsked({ query: MessagesDocument, variables: { conversationId }, pause })[0].data;
  const aroundSeq = place.around ?? 0;
  const around = useAsked({ query: MessagesAroundDocument, variables: { conversationId, aroundSeq }, pause: pause || place.around === null })[0];
  const isAnswered = around.operation?.variables.aroundSeq === place.around;
  const data = place.around === null ? newest : isAnswered ? around.data : undefined;

  const messages = data?.messages?.edges.map((edge) => edge.node) ?? [];
  const { hasPreviousPage = false, startCursor = null, hasNextPage = false, endCursor = null } = data?.messages?.pageInfo ?? {};
  const show = (seq: number | null) => setPlace(({ number }) => ({ around: seq, number: number + 1 }));

  if (!opened && data && sessionLoaded) {
    setOpened(true);
    if (place.around === null && session && session.unreadCount > 0 && hasPreviousPage && messages[0]!.seq > session.readSeq) show(session.readSeq + 1);
  }

  const load = {
    older: () => client.query(OlderMessagesDocument, { conversationId, before: startCursor! }).toPromise(),
    newer: () => client.query(NewerMessagesDocument, { conversationId, after: endCursor! }).toPromise(),
  };
  return {
    messages: opened ? messages : [],
    loaded: opened && !!data,
    /** Changes when another part is displayed. */
    place: place.number,
    loadOlder: opened && hasPreviousPage ? load.older : null,
    /** Null if the newest message is there. */
    loadNewer: opened && hasNextPage ? load.newer : null,
    /** Displays the part with this message, or with its neighbours if it is gone. Returns false without a network. */
    goTo: async (seq: number) => {
      if (messages.some((each) => each.seq === seq)) return true;
      const { data: found } = await client.query(MessagesAroundDocument, { conversationId, aroundSeq: seq }).toPromise();
      if (found) show(seq);
      return !!found;
    },
    goToNewest: () => show(null),
  };
}
