import type { Message, Session } from "@confab/client";
import { useMemo, useRef, useState } from "react";

import { MessagesAroundDocument, MessagesDocument, NewerMessagesDocument, OlderMessagesDocument } from "../gql";
import { useAsked, useScreen, useWorld } from "./world";

interface Place {
  /** The messages around this seq; null: the newest ones. It follows the user's scrolling, because distant pages are dropped. */
  around: number | null;
  /** The number of parts of the history that were displayed so far. */
  number: number;
}

const NONE: Message[] = [];

/**
 * A part of a conversation's history without gaps, which grows at both ends: at first around the seq `beginAt`; without one, from where
 * the unread messages begin, else from the newest message.
 */
export function useHistory(conversationId: string, session: Session | null, sessionLoaded: boolean, beginAt: number | null) {
  const { client } = useWorld();
  const [place, setPlace] = useState<Place>({ around: beginAt, number: 0 });
  const [opened, setOpened] = useState(false);
  // Not before the first screen: everything after its cursor arrives as events, so nothing falls between the two.
  const pause = useScreen() !== "there";
  const newest = useAsked({ query: MessagesDocument, variables: { conversationId }, pause: pause || place.around !== null })[0].data;
  const aroundSeq = place.around ?? 0;
  const around = useAsked({ query: MessagesAroundDocument, variables: { conversationId, aroundSeq }, pause: pause || place.around === null })[0];
  const isAnswered = around.operation?.variables.aroundSeq === place.around;
  const answer = place.around === null ? newest : isAnswered ? around.data : undefined;
  // While the messages around another seq are being loaded, the current ones stay displayed.
  const held = useRef({ number: place.number, answer });
  if (answer || held.current.number !== place.number) held.current = { number: place.number, answer };
  const data = held.current.answer;

  const messages = useMemo(() => data?.messages?.edges.map((edge) => edge.node) ?? [], [data?.messages]);
  const { hasPreviousPage = false, startCursor = null, hasNextPage = false, endCursor = null } = data?.messages?.pageInfo ?? {};
  const show = (seq: number | null) => setPlace(({ number }) => ({ around: seq, number: number + 1 }));

  if (!opened && data && sessionLoaded) {
    setOpened(true);
    if (place.around === null && session && session.unreadCount > 0 && hasPreviousPage && messages[0]!.seq > session.readSeq) show(session.readSeq + 1);
  }

  const stayAt = (message: Message | undefined) => message && setPlace(({ number }) => ({ around: message.seq, number }));
  const load = {
    older: () => (stayAt(messages[0]), client.query(OlderMessagesDocument, { conversationId, before: startCursor! }).toPromise()),
    newer: () => (stayAt(messages.at(-1)), client.query(NewerMessagesDocument, { conversationId, after: endCursor! }).toPromise()),
  };
  return {
    messages: opened ? messages : NONE,
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
