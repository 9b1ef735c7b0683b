/// A stored message, as it is shown.
struct Message: Identifiable, Equatable {
  let id: String
  let conversationId: String
  /// Its position in the conversation.
  let seq: Int
  let senderId: String
  let author: String
  /// Nil once it is recalled.
  let text: String?
  let isSystem: Bool
  let isRecalled: Bool
  let isEdited: Bool
  let attachments: [ConfabAPI.AttachmentParts]
  /// Nil until somebody replies in a thread.
  var threadId: String?
  var replyCount: Int
  /// The key under which this user sent it; nil for messages of others.
  let key: String?

  init(_ parts: ConfabAPI.MessageParts) {
    id = parts.id
    conversationId = parts.conversationId
    seq = parts.seq
    senderId = parts.sender.fragments.userParts.id
    author = parts.authorName
    text = parts.content
    isSystem = parts.contentType == .system
    isRecalled = parts.state == .recalled
    isEdited = parts.editCount > 0
    attachments = parts.attachments.map(\.fragments.attachmentParts)
    threadId = parts.thread?.id
    replyCount = parts.thread?.replyCount ?? 0
    key = parts.idempotencyKey
  }
}

/// The part of an event that is about the history of a conversation. Applying it twice has the same effect as once.
enum Change {
  case stored(Message)
  case revised(Message)
  case replied(parentId: String, threadId: String, replyCount: Int)
}
