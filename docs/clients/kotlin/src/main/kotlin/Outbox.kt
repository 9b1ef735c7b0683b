package example.chat

import com.apollographql.apollo.api.Optional
import example.chat.graphql.SendMessageMutation
import example.chat.graphql.type.SendMessageInput
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.coroutines.launch
import kotlinx.serialization.SerializationException
import kotlinx.serialization.Serializable
import kotlinx.serialization.json.Json
import java.io.File
import java.io.IOException
import java.util.UUID
import kotlin.time.Duration.Companion.hours
import kotlin.time.Duration.Companion.seconds

/** The server remembers a key for 24 hours. A later attempt might store the message twice, so the author decides. */
private val KEY_LASTS = 23.hours

@Serializable
data class Unsent(
    /** The idempotencyKey of all attempts. */
    val key: String,
    /** Where it is shown. */
    val conversationId: String,
    /** The message in whose thread it is written, if it is to begin that thread. */
    val threadOf: String?,
    val text: String,
    val attachmentIds: List<String>,
    val writtenAt: Long,
    /** Why it was not stored; null while it waits. */
    val failure: String? = null,
    /** The server has it, and its event has not arrived yet. */
    val isStored: Boolean = false,
)

/**
 * Messages that the server has not stored yet. They are in [file] before they are sent, and survive the end of the app. Messages of
 * one conversation are sent one after the other. Each is stored once, however often it is sent. Belongs to the main thread.
 */
class Outbox(private val file: File, private val connection: Connection, private val stored: (SendMessageMutation.SendMessage) -> Boolean) {
    private val all = MutableStateFlow(read())
    val items: StateFlow<List<Unsent>> = all.asStateFlow()
    private val wake = Channel<Unit>(Channel.CONFLATED).apply { trySend(Unit) }

    fun send(conversationId: String, text: String, attachmentIds: List<String>, threadOf: String?) {
        val key = UUID.randomUUID().toString()
        replace(all.value + Unsent(key, conversationId, threadOf, text, attachmentIds, System.currentTimeMillis()))
        wake.trySend(Unit)
    }

    /** With the same key: if an earlier attempt stored the message, it is not stored again. */
    fun retry(key: String) {
        change(key) { it.copy(failure = null, writtenAt = System.currentTimeMillis()) }
        wake.trySend(Unit)
    }

    fun discard(key: String) = replace(all.value.filterNot { it.key == key && it.failure != null })

    /** The message is shown by its history. The event may arrive before the answer of the mutation, or without one. */
    fun confirm(key: String) {
        if (all.value.any { it.key == key }) replace(all.value.filterNot { it.key == key })
    }

    /** A page of the history was fetched, which has all that was stored before. */
    fun confirmStored(conversationId: String) = replace(all.value.filterNot { it.conversationId == conversationId && it.isStored })

    /** Runs until it is cancelled. */
    suspend fun run() = coroutineScope {
        val busy = mutableSetOf<String>()
        for (signal in wake) {
            for (conversationId in all.value.filter(::isWaiting).map { it.conversationId }.toSet() - busy) {
                busy += conversationId
                launch {
                    sendAll(conversationId)
                    busy -= conversationId
                }
            }
        }
    }

    private suspend fun sendAll(conversationId: String) {
        var attempt = 1
        while (true) {
            val next = all.value.firstOrNull { it.conversationId == conversationId && isWaiting(it) } ?: return
            if (System.currentTimeMillis() - next.writtenAt > KEY_LASTS.inWholeMilliseconds) {
                change(next.key) { it.copy(failure = "This message has waited for a day.") }
                continue
            }
            try {
                val answer = connection.mutate(SendMessageMutation(input(next))).sendMessage
                change(next.key) { it.copy(isStored = true) }
                if (stored(answer)) confirm(next.key)
                attempt = 1
            } catch (failure: Failure) {
                // A refused token says nothing about the message.
                if (failure.isRetryable || failure.code == "UNAUTHENTICATED" || failure.code == "SIGNED_OUT") {
                    delay(failure.waitBefore(attempt, 15.seconds))
                    attempt += 1
                } else {
                    change(next.key) { it.copy(failure = failure.message) }
                }
            }
        }
    }

    private fun isWaiting(item: Unsent) = item.failure == null && !item.isStored

    private fun input(item: Unsent) = SendMessageInput(
        conversationId = if (item.threadOf == null) Optional.present(item.conversationId) else Optional.absent(),
        threadOf = Optional.presentIfNotNull(item.threadOf),
        content = item.text,
        attachmentIds = Optional.present(item.attachmentIds),
        idempotencyKey = Optional.present(item.key),
    )

    private fun change(key: String, change: (Unsent) -> Unsent) = replace(all.value.map { if (it.key == key) change(it) else it })

    private fun replace(items: List<Unsent>) {
        if (items == all.value) return
        all.value = items
        try {
            val next = File(file.path + ".next")
            next.writeText(Json.encodeToString(items.filterNot { it.isStored }))
            next.renameTo(file) // a file is replaced as a whole
        } catch (_: IOException) {
            // If the disk is full, messages are sent nevertheless: they are in memory.
        }
    }

    private fun read(): List<Unsent> = try {
        if (file.exists()) Json.decodeFromString<List<Unsent>>(file.readText()) else emptyList()
    } catch (_: SerializationException) {
        emptyList() // written by another version
    }
}
