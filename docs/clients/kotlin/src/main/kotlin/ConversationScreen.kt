package example.chat

import androidx.activity.compose.rememberLauncherForActivityResult
import androidx.activity.result.contract.ActivityResultContracts
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.imePadding
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.lazy.LazyColumn
import androidx.compose.foundation.lazy.items
import androidx.compose.material3.OutlinedTextField
import androidx.compose.material3.Text
import androidx.compose.material3.TextButton
import androidx.compose.runtime.Composable
import androidx.compose.runtime.LaunchedEffect
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.remember
import androidx.compose.runtime.rememberCoroutineScope
import androidx.compose.runtime.saveable.rememberSaveable
import androidx.compose.runtime.setValue
import androidx.compose.ui.Modifier
import androidx.compose.ui.platform.LocalContext
import androidx.compose.ui.semantics.LiveRegionMode
import androidx.compose.ui.semantics.liveRegion
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.dp
import androidx.lifecycle.Lifecycle
import androidx.lifecycle.compose.LocalLifecycleOwner
import androidx.lifecycle.compose.collectAsStateWithLifecycle
import androidx.lifecycle.repeatOnLifecycle
import example.chat.graphql.fragment.AttachmentParts
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import java.util.UUID
import kotlin.time.Duration.Companion.seconds

/** A private conversation, group, channel or thread. */
@Composable
fun ConversationScreen(chat: Chat, conversationId: String, openThread: (threadId: String) -> Unit) {
    val history = remember(conversationId) { chat.open(conversationId) }
    val state by history.state.collectAsStateWithLifecycle()
    val unsent by chat.outbox.items.collectAsStateWithLifecycle()
    val scope = rememberCoroutineScope()
    val lifecycle = LocalLifecycleOwner.current.lifecycle
    LaunchedEffect(history) { lifecycle.repeatOnLifecycle(Lifecycle.State.STARTED) { chat.watch(history) } }
    val newest = state.messages.lastOrNull()?.seq
    LaunchedEffect(newest) {
        lifecycle.repeatOnLifecycle(Lifecycle.State.RESUMED) {
            if (newest != null) ignoringFailure { chat.markRead(conversationId, newest) }
        }
    }
    // A message that is stored and still in the outbox has the same key in both.
    val shown = state.messages.mapNotNullTo(mutableSetOf()) { it.key }
    val pending = unsent.filter { it.conversationId == conversationId && it.key !in shown }
    var replyTo by remember(conversationId) { mutableStateOf<Message?>(null) }

    Column(Modifier.imePadding()) {
        state.failure?.let { Text(it, Modifier.padding(16.dp).semantics { liveRegion = LiveRegionMode.Polite }) }
        LazyColumn(Modifier.weight(1f).fillMaxWidth(), reverseLayout = true) {
            items(pending.asReversed(), key = { it.key }) { UnsentRow(it, chat.outbox) }
            items(state.messages.asReversed(), key = { it.key ?: it.id }) { message ->
                MessageRow(message, chat, openThread, reply = { replyTo = message })
            }
            if (state.hasOlder) {
                item { TextButton(onClick = { scope.launch { ignoringFailure { history.loadOlder() } } }) { Text("Earlier messages") } }
            }
        }
        TypingLine(chat, conversationId)
        Composer(chat, conversationId, replyTo, noReply = { replyTo = null })
    }
}

@Composable
private fun MessageRow(message: Message, chat: Chat, openThread: (String) -> Unit, reply: () -> Unit) {
    Column(Modifier.padding(horizontal = 16.dp, vertical = 4.dp)) {
        if (!message.isSystem) Text(message.author)
        Text(if (message.isRecalled) "Message recalled" else message.text.orEmpty() + if (message.isEdited) " (edited)" else "")
        message.attachments.forEach { Text(it.description ?: it.filename) }
        if (isReadByPeer(message, chat)) Text("Read")
        val threadId = message.threadId
        val isThread = message.conversationId.startsWith("t_") // threads do not nest
        if (threadId != null) {
            TextButton(onClick = { openThread(threadId) }) { Text("Replies: ${message.replyCount}") }
        } else if (!isThread && !message.isSystem && !message.isRecalled) {
            TextButton(onClick = reply) { Text("Reply in a thread") }
        }
    }
}

/** Private conversations only: elsewhere peerReadSeq is null. */
@Composable
private fun isReadByPeer(message: Message, chat: Chat): Boolean {
    val state by chat.state.collectAsStateWithLifecycle()
    val session = state.sessions.firstOrNull { it.conversation.id == message.conversationId }
    return message.senderId == state.myId && message.seq <= (session?.peerReadSeq ?: 0)
}

@Composable
private fun UnsentRow(item: Unsent, outbox: Outbox) {
    Column(Modifier.padding(horizontal = 16.dp, vertical = 4.dp)) {
        Text(item.text)
        val failure = item.failure
        if (failure == null) {
            Text("Sending")
        } else {
            Text(failure, Modifier.semantics { liveRegion = LiveRegionMode.Polite })
            Row {
                TextButton(onClick = { outbox.retry(item.key) }) { Text("Try again") }
                TextButton(onClick = { outbox.discard(item.key) }) { Text("Discard") }
            }
        }
    }
}

@Composable
private fun TypingLine(chat: Chat, conversationId: String) {
    val typists by chat.typing.typists.collectAsStateWithLifecycle()
    LaunchedEffect(chat) {
        while (true) {
            delay(1.seconds)
            chat.typing.expire()
        }
    }
    val names = typists.filter { it.conversationId == conversationId }.map { it.name }
    val text = when {
        names.isEmpty() -> return
        names.size > 3 -> "Several people are typing"
        else -> "${names.joinToString()} ${if (names.size == 1) "is" else "are"} typing"
    }
    Text(text, Modifier.padding(horizontal = 16.dp))
}

@Composable
private fun Composer(chat: Chat, conversationId: String, replyTo: Message?, noReply: () -> Unit) {
    var text by rememberSaveable(conversationId) { mutableStateOf("") }
    var files by remember(conversationId) { mutableStateOf(emptyList<AttachmentParts>()) }
    var failure by remember(conversationId) { mutableStateOf<String?>(null) }
    val scope = rememberCoroutineScope()
    val context = LocalContext.current
    val picker = rememberLauncherForActivityResult(ActivityResultContracts.GetContent()) { uri ->
        if (uri != null) scope.launch {
            failure = try {
                files += chat.connection.upload(context.localFile(uri), conversationId, key = UUID.randomUUID().toString())
                null
            } catch (refused: Failure) {
                refused.message
            }
        }
    }

    failure?.let { Text(it, Modifier.padding(8.dp).semantics { liveRegion = LiveRegionMode.Polite }) }
    files.forEach { Text(it.filename, Modifier.padding(horizontal = 8.dp)) }
    if (replyTo != null) TextButton(onClick = noReply) { Text("Do not reply to ${replyTo.author} in a thread") }
    Row(Modifier.padding(8.dp)) {
        TextButton(onClick = { picker.launch("*/*") }) { Text("Attach") }
        OutlinedTextField(
            value = text,
            onValueChange = {
                text = it
                scope.launch { if (it.isEmpty()) chat.typing.stopped(conversationId) else chat.typing.pressed(conversationId) }
            },
            label = { Text("Message") },
            modifier = Modifier.weight(1f),
        )
        TextButton(
            enabled = text.isNotBlank() || files.isNotEmpty(),
            onClick = {
                chat.send(conversationId, text, files.map { it.id }, threadOf = replyTo?.id)
                text = ""
                files = emptyList()
                noReply()
            },
        ) { Text("Send") }
    }
}
