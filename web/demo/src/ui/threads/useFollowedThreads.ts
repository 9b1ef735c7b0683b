import { THREADS, type Session } from "@confab/client";
import { useView } from "@confab/client/react";
import { useEffect, useState } from "react";

import { LatestRepliesDocument, type PreviewPartsFragment } from "../../gql";
import { useAttempt } from "../useMutation";
import { useOnline, useApp } from "../appContext";

type Thread = Extract<Session["conversation"], { __typename: "Thread" }>;

/** The session of a thread. */
export interface FollowedThread extends Session {
  conversation: Thread;
}

const GATEWAY = `b_${THREADS}`;
const LATEST = 3;

const isThread = (session: Session): session is FollowedThread => session.conversation.__typename === "Thread";

/** The threads that the user follows, the one with the latest reply first. */
export function useFollowedThreads() {
  const { client } = useApp();
  const attempt = useAttempt();
  const { status, sessions } = useView(client.sessions({ subBiz: THREADS }));
  return {
    status,
    threads: sessions.filter(isThread),
    markAllRead: () => void attempt(client.markRead(GATEWAY)),
    markRead: (threadId: string) => void attempt(client.markRead(threadId)),
    unfollow: (threadId: string) => void attempt(client.followThread(threadId, false)),
  };
}

/** The number of unread replies in all followed threads that are not muted. */
export function useUnreadReplies(): number {
  const session = useView(useApp().client.session(GATEWAY));
  return session?.status === "ACTIVE" ? session.unreadCount : 0;
}

/** Undefined until they are loaded. They are loaded again when the thread changes. */
export function useLatestReplies({ conversation, writeSeq, lastMessage }: FollowedThread): readonly PreviewPartsFragment[] | undefined {
  const { client } = useApp();
  const isOnline = useOnline();
  const [latest, setLatest] = useState<readonly PreviewPartsFragment[]>();
  useEffect(() => {
    if (!isOnline) return;
    const controller = new AbortController();
    client.api.request(LatestRepliesDocument, { id: conversation.id }, { signal: controller.signal }).then(
      ({ messages }) => controller.signal.aborted || setLatest(messages?.edges.map(({ node }) => node).slice(-LATEST) ?? []),
      () => {}, // It is tried again with the next change, and when the network is back.
    );
    return () => controller.abort();
  }, [client, conversation.id, writeSeq, lastMessage?.state, lastMessage?.editCount, conversation.replyCount, isOnline]);
  return latest;
}
