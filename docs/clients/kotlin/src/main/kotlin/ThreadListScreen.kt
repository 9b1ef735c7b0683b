package example.chat

import androidx.compose.foundation.clickable
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.lazy.LazyColumn
import androidx.compose.foundation.lazy.items
import androidx.compose.material3.ListItem
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.runtime.LaunchedEffect
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.remember
import androidx.compose.runtime.setValue
import androidx.compose.ui.Modifier
import example.chat.graphql.ThreadsQuery

/** The threads of a conversation, the latest reply first, as they were when the screen was opened. */
@Composable
fun ThreadListScreen(chat: Chat, conversationId: String, show: (threadId: String) -> Unit) {
    var threads by remember(conversationId) { mutableStateOf(emptyList<ThreadsQuery.Node>()) }
    var next by remember(conversationId) { mutableStateOf<String?>(null) }
    var failure by remember(conversationId) { mutableStateOf<String?>(null) }

    suspend fun load(after: String?) {
        try {
            val page = retrying(attempts = 5) { chat.connection.query(ThreadsQuery(conversationId, after)) }.threads
            threads = threads + page.edges.map { it.node }
            next = page.pageInfo.run { if (hasNextPage) endCursor else null }
        } catch (refused: Failure) {
            failure = refused.message
        }
    }
    LaunchedEffect(conversationId) { load(after = null) }
    LazyColumn(Modifier.fillMaxSize()) {
        items(threads, key = { it.id }) { thread ->
            ListItem(
                headlineContent = { Text(thread.title) },
                supportingContent = { Text("Replies: ${thread.replyCount}") },
                modifier = Modifier.clickable { show(thread.id) },
            )
        }
        next?.let { after -> item { LaunchedEffect(after) { load(after) } } }
        failure?.let { item { Text(it) } }
    }
}
