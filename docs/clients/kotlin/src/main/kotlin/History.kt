package example.chat

import example.chat.graphql.HistoryQuery
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow

/**
 * The messages of one conversation from some point to the newest, in order of seq and without gaps: pages of the past, and what
 * events add. Belongs to the main thread.
 */
class History(val conversationId: String, private val connection: Connection, private val loaded: (List<Message>) -> Unit) {
    data class State(
        val messages: List<Message> = emptyList(),
        val hasOlder: Boolean = false,
        val isLoaded: Boolean = false,
        val failure: String? = null,
    )

    private val shown = MutableStateFlow(State())
    val state: StateFlow<State> = shown.asStateFlow()

    private val bySeq = sortedMapOf<Int, Message>()
    private var olderCursor: String? = null
    private val reloads = Channel<Unit>(Channel.CONFLATED)
    private var epoch = 0

    /** Nothing is missing between the messages and the next event. */
    var isContinuous = false
        private set

    /** Of a channel or thread: the position of the last event that was applied. */
    var rev: Long? = null

    /** Changes that arrived while a page was being fetched, which may be older than they. Null: none is being fetched. */
    private var meanwhile: MutableList<Change>? = null

    /** Asks `keepLoaded` to fetch the newest page: at the start, and when too many events were missed. */
    fun reload() {
        isContinuous = false
        reloads.trySend(Unit)
    }

    /** Runs until it is cancelled. */
    suspend fun keepLoaded() {
        for (reload in reloads) {
            try {
                loadNewest()
            } catch (failure: Failure) {
                fail(failure)
            }
        }
    }

    fun fail(failure: Failure) {
        shown.value = shown.value.copy(failure = failure.message)
    }

    private suspend fun loadNewest() {
        epoch += 1
        val changes = mutableListOf<Change>().also { meanwhile = it }
        try {
            val page = retrying { connection.query(HistoryQuery(conversationId, before = null)) }.messages
            bySeq.clear()
            // There is no page of a conversation without messages, and it begins with the first event.
            page?.edges.orEmpty().map { it.node.messageParts.toMessage() }.forEach { bySeq[it.seq] = it }
            olderCursor = page?.pageInfo?.run { if (hasPreviousPage) startCursor else null }
        } finally {
            meanwhile = null
        }
        isContinuous = true
        changes.forEach(::merge)
        show()
        loaded(shown.value.messages)
    }

    /** Fetches the page before the oldest message. Throws a [Failure]. */
    suspend fun loadOlder() {
        val before = olderCursor
        if (before == null || meanwhile != null) return
        val begun = epoch
        val changes = mutableListOf<Change>().also { meanwhile = it }
        try {
            val page = retrying(attempts = 5) { connection.query(HistoryQuery(conversationId, before)) }.messages
            if (epoch != begun || page == null) return // the newest page was fetched meanwhile, and this is not next to it any more
            page.edges.map { it.node.messageParts.toMessage() }.forEach { bySeq.putIfAbsent(it.seq, it) }
            olderCursor = page.pageInfo.run { if (hasPreviousPage) startCursor else null }
            changes.forEach(::merge)
            show()
        } finally {
            if (epoch == begun) meanwhile = null
        }
    }

    fun apply(change: Change) {
        meanwhile?.add(change)
        if (!isContinuous) return
        merge(change)
        show()
    }

    /** Adds the answer of a mutation, if nothing can be missing before it. Otherwise its event adds it. */
    fun append(message: Message): Boolean {
        if (!isContinuous) return false
        val isNext = if (bySeq.isEmpty()) olderCursor == null && message.seq == 1 else message.seq == bySeq.lastKey() + 1
        if (isNext) apply(Change.Stored(message))
        return isNext || bySeq.containsKey(message.seq)
    }

    private fun merge(change: Change) {
        when (change) {
            // Missed messages arrive in order. A page may have their end already: their beginning comes with older pages.
            is Change.Stored -> if (olderCursor == null || bySeq.isEmpty() || change.message.seq > bySeq.firstKey()) {
                bySeq.putIfAbsent(change.message.seq, change.message)
            }
            is Change.Revised -> bySeq.computeIfPresent(change.message.seq) { _, _ -> change.message }
            is Change.Replied -> bySeq.values.firstOrNull { it.id == change.parentId }?.let {
                bySeq[it.seq] = it.copy(threadId = change.threadId, replyCount = change.replyCount)
            }
        }
    }

    private fun show() {
        shown.value = State(bySeq.values.toList(), hasOlder = olderCursor != null, isLoaded = true)
    }
}
