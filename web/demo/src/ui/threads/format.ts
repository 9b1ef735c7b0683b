import { threadId, type Message } from "@confab/client";


/** The thread of a message; of a reply that is shown in the conversation too, the thread that it is in. */
export const threadOf = ({ conversationId, seq, broadcastOf }: Pick<Message, "conversationId" | "seq" | "broadcastOf">) =>
  broadcastOf?.conversationId ?? threadId(conversationId, seq);

const noun = (count: number) => (count === 1 ? "reply" : "replies");
export const replies = (count: number) => `${count} ${noun(count)}`;
export const moreReplies = (count: number) => `${count} more ${noun(count)}`;
export const unreadReplies = (count: number) => `${count} unread ${noun(count)}`;
