import { THREADS, type Message, type Session } from "@confab/client";

import { FollowThreadDocument, LatestRepliesDocument, MarkReadDocument, OneSessionDocument, SessionsDocument } from "../../gql";
import { useDo } from "../useDo";
import { useAsked, useScreen, useWorld } from "../world";

type Conversation = Session["conversation"];
export type Thread = Extract<Conversation, { __typename: "Thread" }>;

export interface FollowedThread {
  thread: Thread;
  unreadCount: number;
}

const GATEWAY = `b_${THREADS}`;
const LATEST = 3;

/** The threads that the user follows, the one with the latest reply first. Undefined until they are loaded. */
export function useFollowedThreads() {
  const { client } = useWorld();
  const run = useDo();
  const variables = { subBiz: THREADS };
  const [{ data, error }, again] = useAsked({ query: SessionsDocument, variables, requestPolicy: "cache-and-network", pause: useScreen() !== "there" });
  const threads = data?.sessions.edges.flatMap(({ node: { conversation, unreadCount } }): FollowedThread[] => (conversation.__typename === "Thread" ? [{ thread: conversation, unreadCount }] : []));
  const after = data?.sessions.pageInfo.hasNextPage ? data.sessions.pageInfo.endCursor : null;
  return {
    threads,
    hasFailed: !data && !!error,
    again: () => again({ requestPolicy: "network-only" }),
    /** Null if all are there. */
    loadMore: after === null ? null : () => void client.query(SessionsDocument, { ...variables, after }).toPromise(),
    markAllRead: () => run(MarkReadDocument, { conversationId: GATEWAY }),
    markRead: (thread: Thread) => run(MarkReadDocument, { conversationId: thread.id }),
    unfollow: (thread: Thread) => run(FollowThreadDocument, { id: thread.id, follow: false }),
  };
}

/** The number of unread replies in all followed threads that are not muted. */
export function useUnreadReplies(): number {
  const [{ data }] = useAsked({ query: OneSessionDocument, variables: { conversationId: GATEWAY }, pause: useScreen() !== "there" });
  return data?.session?.status === "ACTIVE" ? data.session.unreadCount : 0;
}

/** Undefined until they are there. */
export function useLatestReplies(threadId: string): Message[] | undefined {
  const [{ data }] = useAsked({ query: LatestRepliesDocument, variables: { id: threadId } });
  return data?.messages?.edges.map(({ node }) => node).slice(-LATEST);
}
