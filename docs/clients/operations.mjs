// The operations of all clients here. Select `cursor` in every event that has one: a subscription resumes from it.
export const SESSION = `fragment SessionRow on Session {
  id status subBiz priority writeTs unreadCount unreadMentionCount unreadStatus muteStatus readSeq writeSeq peerDeliveredSeq peerReadSeq
  conversation { id type title }
  lastMessage { id content state }
}`;
export const MESSAGE = `fragment MessageRow on Message {
  id conversationId seq contentType content state createdAt editCount idempotencyKey
  sender { id displayName }
}`;

export const SESSIONS = `query Sessions($after: String) {
  sessions(first: 50, after: $after) { totalUnread cursor edges { cursor node { ...SessionRow } } pageInfo { hasNextPage endCursor } }
} ${SESSION}`;
export const SYNC = `query Sync($since: Cursor) {
  syncSessions(since: $since) { reset hasMore cursor totalUnread sessions { ...SessionRow } }
} ${SESSION}`;
export const MESSAGES = `query Messages($conversationId: ID!, $before: String) {
  messages(conversationId: $conversationId, last: 50, before: $before) {
    edges { cursor node { ...MessageRow } } pageInfo { hasPreviousPage startCursor }
  }
} ${MESSAGE}`;
export const SEND = `mutation Send($input: SendMessageInput!) {
  sendMessage(input: $input) { replayed message { ...MessageRow } }
} ${MESSAGE}`;
export const MARK_READ = `mutation MarkRead($conversationId: ID!, $upToSeq: Int) {
  markRead(conversationId: $conversationId, upToSeq: $upToSeq) { ...SessionRow }
} ${SESSION}`;
export const SESSION_EVENTS = `subscription SessionEvents($since: Cursor) {
  syncSession(since: $since) { reason reset hasMore cursor totalUnread sessions { ...SessionRow } }
} ${SESSION}`;
export const MESSAGE_EVENTS = `subscription MessageEvents($since: Cursor) {
  messageEvents(since: $since) {
    __typename
    ... on MessageCreated { cursor message { ...MessageRow } }
    ... on MessageUpdated { cursor message { ...MessageRow } }
    ... on MessageRecalled { cursor message { ...MessageRow } }
    ... on ReceiptAdvanced { cursor conversationId status seq user { id } }
    ... on TypingStarted { conversationId user { id displayName } }
    ... on CaughtUp { cursor reset }
  }
} ${MESSAGE}`;
