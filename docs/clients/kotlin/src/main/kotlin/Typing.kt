package example.chat

import example.chat.graphql.StartTypingMutation
import example.chat.graphql.StopTypingMutation
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlin.time.Duration.Companion.seconds
import kotlin.time.TimeMark
import kotlin.time.TimeSource

/** The server passes on one signal in this time. */
private val REPEAT = 3.seconds

/** A signal is shown for this time at most. */
val TYPING_SHOWN = 8.seconds

/** The users who are typing, and the signals that this user is. Belongs to the main thread. */
class Typing(private val connection: Connection) {
    data class Typist(val conversationId: String, val userId: String, val name: String, val since: TimeMark)

    private val shown = MutableStateFlow(emptyList<Typist>())
    val typists: StateFlow<List<Typist>> = shown.asStateFlow()
    private val sent = mutableMapOf<String, TimeMark>()

    /** Call it at each change of the text. */
    suspend fun pressed(conversationId: String) {
        if (sent[conversationId]?.let { it.elapsedNow() < REPEAT } == true) return
        sent[conversationId] = TimeSource.Monotonic.markNow()
        ignoringFailures { connection.mutate(StartTypingMutation(conversationId)) } // the next key press repeats it
    }

    /** Call it when the text was emptied. */
    suspend fun stopped(conversationId: String) {
        if (forget(conversationId)) ignoringFailures { connection.mutate(StopTypingMutation(conversationId)) }
    }

    /** Call it when the message was sent, which ends typing for others. Returns whether a signal was sent before. */
    fun forget(conversationId: String): Boolean = sent.remove(conversationId) != null

    fun show(conversationId: String, userId: String, name: String) {
        hide(conversationId, userId)
        shown.value += Typist(conversationId, userId, name, TimeSource.Monotonic.markNow())
    }

    fun hide(conversationId: String, userId: String) {
        shown.value = shown.value.filterNot { it.conversationId == conversationId && it.userId == userId }
    }

    /** Removes those whose signal has ended. */
    fun expire() {
        shown.value = shown.value.filter { it.since.elapsedNow() < TYPING_SHOWN }
    }

    private suspend fun ignoringFailures(block: suspend () -> Unit) {
        try {
            block()
        } catch (_: Failure) {
            // A lost signal is not worth a message to the user.
        }
    }
}
