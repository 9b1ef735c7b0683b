// The operations of all clients here. Select `cursor` in every event that has one: a subscription resumes from it.
export const SESSION = `fragment SessionRow on Session {
  id status subBiz priority writeTs activeTs unreadCount unreadMentionCount unreadStatus muteStatus readSeq deliveredSeq writeSeq peerDeliveredSeq peerReadSeq
  conversation { id type title }
  lastMessage { id content state }
}`;
export const MESSAGE = `fragment MessageRow on Message {
  id conversationId seq contentType content state createdAt editCount idempotencyKey
  sender { id displayName }
  attachments { ...FileParts }
  embeds { type url title description siteName image { url width height } }
}
fragment FileParts on Attachment {
  id filename contentType sizeBytes description state url width height thumbHash thumbnailUrl(width: 640) spoiler
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
export const GROUP_MEMBERS = `query GroupMembers($id: ID!) {
  group(id: $id) { id name viewerRole members(first: 50) { edges { node { role user { id displayName } } } } }
}`;
// For addresses that have ended: they are valid for an hour.
export const ATTACHMENT = "query Attachment($id: ID!) { attachment(id: $id) { id state url thumbnailUrl(width: 640) } }";
export const ME = "query Me { me { id displayName } }";

// Each is named like its field.
export const MUTATIONS = {
  sendMessage: `mutation SendMessage($input: SendMessageInput!) {
    sendMessage(input: $input) { replayed message { ...MessageRow } }
  } ${MESSAGE}`,
  editMessage: `mutation EditMessage($messageId: ID!, $content: String!) {
    editMessage(messageId: $messageId, content: $content) { ...MessageRow }
  } ${MESSAGE}`,
  recallMessage: `mutation RecallMessage($messageId: ID!) {
    recallMessage(messageId: $messageId) { ...MessageRow }
  } ${MESSAGE}`,
  markRead: `mutation MarkRead($conversationId: ID!, $upToSeq: Int) {
    markRead(conversationId: $conversationId, upToSeq: $upToSeq) { ...SessionRow }
  } ${SESSION}`,
  ackManyDelivered: `mutation AckManyDelivered($marks: [DeliveryMark!]!) {
    ackManyDelivered(marks: $marks) { ...SessionRow }
  } ${SESSION}`,
  startTyping: "mutation StartTyping($conversationId: ID!) { startTyping(conversationId: $conversationId) }",
  stopTyping: "mutation StopTyping($conversationId: ID!) { stopTyping(conversationId: $conversationId) }",
  createGroup: "mutation CreateGroup($input: CreateGroupInput!) { createGroup(input: $input) { id type title name } }",
  updateGroup: `mutation UpdateGroup($groupId: ID!, $input: UpdateGroupInput!) {
    updateGroup(groupId: $groupId, input: $input) { id type title name }
  }`,
  inviteMembers: `mutation InviteMembers($groupId: ID!, $userIds: [ID!]!) {
    inviteMembers(groupId: $groupId, userIds: $userIds) { id type title name }
  }`,
  createUpload: `mutation CreateUpload($input: CreateUploadInput!) {
    createUpload(input: $input) { id url method headers { name value } }
  }`,
  completeUpload: `mutation CompleteUpload($uploadId: ID!) {
    completeUpload(uploadId: $uploadId) { id state filename contentType sizeBytes width height thumbHash }
  }`,
  cancelUpload: "mutation CancelUpload($uploadId: ID!) { cancelUpload(uploadId: $uploadId) }",
  suppressEmbeds: `mutation SuppressEmbeds($messageId: ID!) {
    suppressEmbeds(messageId: $messageId) { ...MessageRow }
  } ${MESSAGE}`,
  leaveGroup: "mutation LeaveGroup($groupId: ID!) { leaveGroup(groupId: $groupId) }",
};

// These have the same effect if they are executed twice. Others may be repeated only with an idempotencyKey.
const REPEATABLE = [
  "editMessage", "recallMessage", "markRead", "ackManyDelivered", "updateGroup", "inviteMembers", "completeUpload", "cancelUpload", "suppressEmbeds",
];
export const isRepeatable = (name, { input }) => REPEATABLE.includes(name) || Boolean(input?.idempotencyKey);

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
    ... on TypingStopped { conversationId user { id } }
    ... on GroupChanged { cursor group { id title name } }
    ... on CaughtUp { cursor reset }
  }
} ${MESSAGE}`;
