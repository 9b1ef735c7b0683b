package example.chat

import example.chat.graphql.fragment.AttachmentParts
import example.chat.graphql.fragment.MessageParts
import example.chat.graphql.type.ContentType
import example.chat.graphql.type.MessageState

/** A stored message, as it is shown. */
data class Message(
    val id: String,
    val conversationId: String,
    /** Its position in the conversation. */
    val seq: Int,
    val senderId: String,
    val author: String,
    /** Null once it is recalled. */
    val text: String?,
    val isSystem: Boolean,
    val isRecalled: Boolean,
    val isEdited: Boolean,
    val attachments: List<AttachmentParts>,
    /** Null until somebody replies in a thread. */
    val threadId: String?,
    val replyCount: Int,
    /** The key under which this user sent it; null for messages of others. */
    val key: String?,
)

fun MessageParts.toMessage() = Message(
    id = id,
    conversationId = conversationId,
    seq = seq,
    senderId = sender.userParts.id,
    author = authorName,
    text = content,
    isSystem = contentType == ContentType.SYSTEM,
    isRecalled = state == MessageState.RECALLED,
    isEdited = editCount > 0,
    attachments = attachments.map { it.attachmentParts },
    threadId = thread?.id,
    replyCount = thread?.replyCount ?: 0,
    key = idempotencyKey,
)

/** The part of an event that is about the history of a conversation. Applying it twice has the same effect as once. */
sealed interface Change {
    data class Stored(val message: Message) : Change

    data class Revised(val message: Message) : Change

    data class Replied(val parentId: String, val threadId: String, val replyCount: Int) : Change
}
