package example.chat

import androidx.compose.foundation.clickable
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.lazy.LazyColumn
import androidx.compose.foundation.lazy.items
import androidx.compose.material3.Badge
import androidx.compose.material3.CircularProgressIndicator
import androidx.compose.material3.ListItem
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.runtime.LaunchedEffect
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.remember
import androidx.compose.runtime.setValue
import androidx.compose.ui.Modifier
import androidx.compose.ui.text.style.TextOverflow
import androidx.lifecycle.Lifecycle
import androidx.lifecycle.compose.LocalLifecycleOwner
import androidx.lifecycle.compose.collectAsStateWithLifecycle
import androidx.lifecycle.repeatOnLifecycle
import example.chat.graphql.FollowedChannelsQuery
import example.chat.graphql.fragment.SessionParts
import example.chat.graphql.type.MessageState

/** Keeps [chat] up to date while the app is on the screen. Put it around everything else. */
@Composable
fun Running(chat: Chat, signedOut: (String) -> Unit, content: @Composable () -> Unit) {
    val lifecycle = LocalLifecycleOwner.current.lifecycle
    LaunchedEffect(chat) {
        try {
            lifecycle.repeatOnLifecycle(Lifecycle.State.STARTED) { chat.run() }
        } catch (failure: Failure) {
            signedOut(failure.message.orEmpty())
        }
    }
    content()
}

/** The sessions of the user, and the channels that they follow. */
@Composable
fun SessionListScreen(chat: Chat, show: (conversationId: String) -> Unit) {
    val state by chat.state.collectAsStateWithLifecycle()
    var channels by remember { mutableStateOf(emptyList<FollowedChannelsQuery.Node>()) }
    LaunchedEffect(state.workspaces) {
        channels = try {
            state.workspaces.flatMap { chat.connection.followedChannels(it.id) }
        } catch (_: Failure) {
            channels // the list is fetched again with the next first screen
        }
    }
    if (!state.isLoaded) return CircularProgressIndicator()
    LazyColumn(Modifier.fillMaxSize()) {
        items(state.sessions, key = { it.id }) { session ->
            SessionRow(session, Modifier.clickable { show(session.conversation.id) })
        }
        if (state.hasMore) {
            // Composed when the end of the list comes onto the screen.
            item { LaunchedEffect(state.sessions.size) { ignoringFailure { chat.loadMoreSessions() } } }
        }
        items(channels, key = { it.id }) { channel ->
            val unread = channel.messageCount - (channel.session?.readCount ?: channel.messageCount)
            ListItem(
                headlineContent = { Text("# ${channel.name}") },
                trailingContent = { if (unread > 0) Badge { Text("$unread") } },
                modifier = Modifier.clickable { show(channel.id) },
            )
        }
    }
}

@Composable
private fun SessionRow(session: SessionParts, modifier: Modifier) {
    ListItem(
        headlineContent = { Text(session.conversation.title) },
        supportingContent = { session.lastMessage?.let { Text(preview(it), maxLines = 1, overflow = TextOverflow.Ellipsis) } },
        trailingContent = {
            if (session.unreadCount > 0) Badge { Text("${session.unreadCount}") } else if (session.unreadStatus) Badge()
        },
        modifier = modifier,
    )
}

private fun preview(message: SessionParts.LastMessage): String {
    val text = message.content.orEmpty().ifEmpty { if (message.attachments.isEmpty()) "" else "File" }
    return if (message.state == MessageState.RECALLED) "Message recalled" else "${message.authorName}: $text"
}

private suspend fun Connection.followedChannels(workspaceId: String): List<FollowedChannelsQuery.Node> {
    val found = mutableListOf<FollowedChannelsQuery.Node>()
    var after: String? = null
    do {
        val page = retrying(attempts = 5) { query(FollowedChannelsQuery(workspaceId, after)) }.followedChannels
        found += page.edges.map { it.node }
        after = page.pageInfo.run { if (hasNextPage) endCursor else null }
    } while (after != null)
    return found
}

/** For what is tried again when the user scrolls or looks at the screen again. */
suspend fun ignoringFailure(block: suspend () -> Unit) {
    try {
        block()
    } catch (_: Failure) {
        // Nothing has changed, so nothing needs to be shown.
    }
}
