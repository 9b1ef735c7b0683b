"""The operations of a chat frontend, word for word the same for Confab and the baseline.

The floor only looks for the field's name.
"""

from __future__ import annotations

from bench.selections import CREATE_GROUP, MESSAGE_EVENTS

__all__ = ["CREATE_GROUP", "HISTORY", "MESSAGE_EVENTS", "READ", "SEND", "SESSIONS", "SYNC"]

_SENDER = "sender { id displayName }"

_LISTED = (
    """fragment Listed on Session { id readSeq unreadCount muteStatus writeTs activeTs
    conversation { id type title } lastMessage { id seq content createdAt """
    + _SENDER
    + " } }"
)

SEND = """mutation Send($input: SendMessageInput!) { sendMessage(input: $input) { replayed
    message { id conversationId seq content createdAt }
    session { id writeSeq readSeq unreadCount activeTs writeTs } } }"""
"""input: conversationId or toUserId, and content."""

SESSIONS = (
    """query Sessions($first: Int!) { sessions(first: $first) { totalUnread cursor pageInfo { hasNextPage endCursor }
    edges { node { ...Listed } } } }
"""
    + _LISTED
)

SYNC = (
    """query Sync($since: Cursor) { syncSessions(since: $since, first: 100) { cursor hasMore totalUnread reset
    sessions { ...Listed } } }
"""
    + _LISTED
)

HISTORY = (
    """query History($id: ID!, $last: Int!) { messages(conversationId: $id, last: $last) {
    pageInfo { hasPreviousPage startCursor } edges { node { id seq content state createdAt
    """
    + _SENDER
    + " } } } }"
)

READ = """mutation Read($id: ID!) { markRead(conversationId: $id) { id readSeq deliveredSeq unreadCount
    activeTs writeTs } }"""

ALL = {"SEND": SEND, "SESSIONS": SESSIONS, "SYNC": SYNC, "HISTORY": HISTORY, "READ": READ, "CREATE_GROUP": CREATE_GROUP}
"""With MESSAGE_EVENTS, all operations that a server must understand."""
