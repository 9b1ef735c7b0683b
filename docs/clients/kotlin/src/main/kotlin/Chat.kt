package example.chat

import com.apollographql.apollo.api.Optional
import example.chat.graphql.AckDeliveredMutation
import example.chat.graphql.ChangedSessionsQuery
import example.chat.graphql.ChannelEventsSubscription
import example.chat.graphql.FirstScreenQuery
import example.chat.graphql.MarkReadMutation
import example.chat.graphql.MessageEventsSubscription
import example.chat.graphql.MoreSessionsQuery
import example.chat.graphql.SendMessageMutation
import example.chat.graphql.SessionEventsSubscription
import example.chat.graphql.fragment.SessionParts
import example.chat.graphql.type.ConversationType
import example.chat.graphql.type.DeliveryMark
import example.chat.graphql.type.MessageChange
import example.chat.graphql.type.Position
import example.chat.graphql.type.SessionStatus
import example.chat.graphql.type.SyncReason
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.coroutines.launch
import java.io.File

/** The most marks of one AckDelivered. */
private const val MOST_MARKS = 200

/** Channels and threads are followed one by one. Everything else comes with MessageEvents. */
private fun hasOwnEvents(conversationId: String) = conversationId.startsWith("c_") || conversationId.startsWith("t_")

/**
 * The state of one signed-in user. [run] keeps it equal to the server's while the app is on the screen, and resumes where it
 * ended. Belongs to the main thread.
 */
class Chat(val connection: Connection, outboxFile: File) {
    data class State(
        /** In display order. */
        val sessions: List<SessionParts> = emptyList(),
        val totalUnread: Int = 0,
        val workspaces: List<FirstScreenQuery.Workspace> = emptyList(),
        val myId: String? = null,
        val hasMore: Boolean = false,
        val isLoaded: Boolean = false,
    )

    private val shown = MutableStateFlow(State())
    val state: StateFlow<State> = shown.asStateFlow()
    val typing = Typing(connection)
    val outbox = Outbox(outboxFile, connection, ::isShown)

    private val byConversation = mutableMapOf<String, SessionParts>()
    private val acknowledged = mutableMapOf<String, Int>()
    private val histories = mutableSetOf<History>() // those on the screen
    private var olderSessions: String? = null

    // The positions that have been applied: of the queries, and of each subscription.
    private var queryCursor: String? = null
    private var sessionCursor: String? = null
    private var messageCursor: String? = null

    private val pulls = Channel<Unit>(Channel.CONFLATED)
    private var mustStartOver = true

    /** Runs until it is cancelled, or throws a [Failure] that a retry cannot help, such as SIGNED_OUT. */
    suspend fun run(): Nothing = coroutineScope {
        if (mustStartOver) loadFirstScreen()
        launch { for (pull in pulls) pullSessions() }
        launch { outbox.run() }
        launch { connection.follow({ SessionEventsSubscription(sessionCursor) }) { apply(it.syncSession) } }
        connection.follow({ MessageEventsSubscription(messageCursor) }) { apply(it.messageEvents) }
    }

    /** Fetches the sessions after the last one of the list. Throws a [Failure]. */
    suspend fun loadMoreSessions() {
        val after = olderSessions ?: return
        val page = retrying(attempts = 5) { connection.query(MoreSessionsQuery(after)) }.sessions
        if (olderSessions != after) return // started over meanwhile
        olderSessions = page.pageInfo.run { if (hasNextPage) endCursor else null }
        apply(page.edges.map { it.node.sessionParts })
    }

    fun open(conversationId: String) = History(conversationId, connection) { messages ->
        outbox.confirmStored(conversationId)
        messages.forEach { message -> message.key?.let(outbox::confirm) }
    }

    /** Keeps a history up to date while it is on the screen. Runs until it is cancelled. */
    suspend fun watch(history: History) {
        histories += history
        try {
            coroutineScope {
                if (hasOwnEvents(history.conversationId)) launch { followChannel(history) } else history.reload()
                history.keepLoaded()
            }
        } finally {
            histories -= history
        }
    }

    /** Shows the message at once, and sends it when it can. [threadOf]: the message in whose thread it is to be the first reply. */
    fun send(conversationId: String, text: String, attachmentIds: List<String> = emptyList(), threadOf: String? = null) {
        typing.forget(conversationId)
        outbox.send(conversationId, text, attachmentIds, threadOf)
    }

    /** Call it when the newest message is on the screen. It does nothing if there is nothing to read. Throws a [Failure]. */
    suspend fun markRead(conversationId: String, upToSeq: Int) {
        val session = byConversation[conversationId]
        if (session != null && session.readSeq >= upToSeq && !session.unreadStatus) return
        val read = retrying(attempts = 5) { connection.mutate(MarkReadMutation(conversationId, upToSeq)) }.markRead
        apply(listOf(read.sessionParts))
    }

    private suspend fun loadFirstScreen() {
        val screen = retrying { connection.query(FirstScreenQuery()) }.ready
        mustStartOver = false
        queryCursor = screen.cursor
        // After a reset the subscriptions go on from where they are.
        sessionCursor = sessionCursor ?: screen.cursor
        messageCursor = messageCursor ?: screen.cursor
        olderSessions = screen.sessions.pageInfo.run { if (hasNextPage) endCursor else null }
        byConversation.clear()
        shown.value = State(
            totalUnread = screen.sessions.totalUnread,
            workspaces = screen.workspaces,
            myId = screen.me.userParts.id,
            isLoaded = true,
        )
        apply(screen.sessions.edges.map { it.node.sessionParts })
        acknowledge()
    }

    /** Fetches the sessions that have changed since the last time, once for many events. */
    private suspend fun pullSessions() {
        if (mustStartOver) loadFirstScreen()
        do {
            val page = retrying { connection.query(ChangedSessionsQuery(queryCursor)) }.syncSessions
            if (page.reset) byConversation.clear()
            queryCursor = page.cursor
            shown.value = shown.value.copy(totalUnread = page.totalUnread)
            apply(page.sessions.map { it.sessionParts })
        } while (page.hasMore)
        acknowledge()
    }

    /** Messages that this device knows are delivered. */
    private suspend fun acknowledge() {
        val due = byConversation.values.filter {
            it.status == SessionStatus.ACTIVE && it.writeSeq > maxOf(it.deliveredSeq, acknowledged[it.conversation.id] ?: 0)
        }
        for (part in due.chunked(MOST_MARKS)) {
            part.forEach { acknowledged[it.conversation.id] = it.writeSeq }
            val marks = part.map { DeliveryMark(it.conversation.id, it.writeSeq) }
            try {
                val answer = retrying { connection.mutate(AckDeliveredMutation(marks)) }
                apply(answer.ackManyDelivered.map { it.sessionParts })
            } catch (failure: Failure) {
                if (failure.code == "SIGNED_OUT") throw failure // others concern these messages only
            }
        }
    }

    private fun apply(sessions: List<SessionParts>) {
        for (session in sessions) {
            // Answers may arrive in another order than their requests.
            byConversation.merge(session.conversation.id, session) { held, new -> if (held.activeTs > new.activeTs) held else new }
        }
        shown.value = shown.value.copy(
            sessions = byConversation.values
                .filter { it.status == SessionStatus.ACTIVE && it.subBiz == null && it.conversation.type != ConversationType.CHANNEL }
                .sortedWith(compareByDescending<SessionParts> { it.priority }.thenByDescending { it.writeTs }),
            hasMore = olderSessions != null,
        )
    }

    private fun apply(change: SessionEventsSubscription.SyncSession) {
        apply(change.sessions.map { it.sessionParts })
        if (change.reset) mustStartOver = true
        // A user who rejoins a group may read messages from the time in between, which had no events.
        if (change.reason == SyncReason.MEMBERSHIP) {
            val changed = change.sessions.map { it.sessionParts.conversation.id }
            histories.filter { it.conversationId in changed }.forEach(History::reload)
        }
        sessionCursor = change.cursor
        pulls.trySend(Unit)
    }

    private fun apply(event: MessageEventsSubscription.MessageEvents) {
        val pushed = histories.filterNot { hasOwnEvents(it.conversationId) }
        event.onMessageCreated?.let { created(it.message.messageParts.toMessage(), pushed) }
        (event.onMessageUpdated?.message?.messageParts ?: event.onMessageRecalled?.message?.messageParts)?.toMessage()?.let { message ->
            pushed.filter { it.conversationId == message.conversationId }.forEach { it.apply(Change.Revised(message)) }
        }
        event.onThreadChanged?.let { changed ->
            pushed.forEach { it.apply(Change.Replied(changed.parentId, changed.thread.id, changed.thread.replyCount)) }
        }
        event.onTypingStarted?.let { typing.show(it.conversationId, it.user.userParts.id, it.user.userParts.displayName) }
        event.onTypingStopped?.let { typing.hide(it.conversationId, it.user.id) }
        if (event.onCaughtUp?.reset == true) {
            mustStartOver = true
            pushed.forEach(History::reload)
        }
        // Without a cursor: typing, which changes no session.
        messageCursor = event.onMessageCreated?.cursor ?: event.onMessageUpdated?.cursor ?: event.onMessageRecalled?.cursor
            ?: event.onThreadChanged?.cursor ?: event.onReceiptAdvanced?.cursor ?: event.onReactionsChanged?.cursor
            ?: event.onPinsChanged?.cursor ?: event.onGroupChanged?.cursor ?: event.onMentioned?.cursor ?: event.onCaughtUp?.cursor
            ?: return
        pulls.trySend(Unit)
    }

    private suspend fun followChannel(history: History) {
        fun position() = Position(history.conversationId, Optional.presentIfNotNull(history.rev))
        try {
            connection.follow({ ChannelEventsSubscription(listOf(position())) }) { data ->
                val event = data.channelEvents
                event.onChannelMessage?.let {
                    val message = it.message.messageParts.toMessage()
                    if (it.change == MessageChange.CREATED) created(message, listOf(history)) else history.apply(Change.Revised(message))
                }
                event.onChannelThread?.let { history.apply(Change.Replied(it.parentId, it.thread.id, it.thread.replyCount)) }
                event.onTypingStarted?.let { typing.show(it.conversationId, it.user.userParts.id, it.user.userParts.displayName) }
                event.onTypingStopped?.let { typing.hide(it.conversationId, it.user.id) }
                event.onChannelCaughtUp?.let { if (it.reset || !history.isContinuous) history.reload() }
                event.onAccessEnded?.let { throw Failure("You can no longer read this conversation.", "NOT_FOUND", isRetryable = false) }
                history.rev = event.onChannelMessage?.rev ?: event.onChannelThread?.rev ?: event.onChannelCaughtUp?.rev ?: history.rev
            }
        } catch (failure: Failure) {
            history.fail(failure)
        }
    }

    private fun created(message: Message, targets: List<History>) {
        targets.filter { it.conversationId == message.conversationId }.forEach { it.apply(Change.Stored(message)) }
        message.key?.let(outbox::confirm)
        typing.hide(message.conversationId, message.senderId)
    }

    /** Whether a message of the outbox, which the server has just stored, is shown by its history, so that the outbox can remove it. */
    private fun isShown(answer: SendMessageMutation.SendMessage): Boolean {
        apply(listOf(answer.session.sessionParts))
        val message = answer.message.messageParts.toMessage()
        val open = histories.filter { it.conversationId == message.conversationId }
        return open.isEmpty() || open.any { it.append(message) }
    }
}
