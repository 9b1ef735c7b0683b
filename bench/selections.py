"""Selections of chat clients, for the benchmarks of live events."""

from __future__ import annotations

MESSAGE_EVENTS = """subscription Live { messageEvents { __typename ... on MessageCreated { cursor message { ...Shown } }
    ... on CaughtUp { cursor reset } } }
fragment Shown on Message {
  id conversationId seq content contentType state createdAt sender { id displayName avatarUrl }
}"""

SYNC_SESSION = """subscription Sync { syncSession { reason hasMore totalUnread cursor reset sessions {
    id unreadCount readSeq writeTs activeTs conversation { id title } } } }"""

CREATE_GROUP = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id memberCount } }"

SEND_MESSAGE = """mutation ($id: ID!, $text: String!) {
  sendMessage(input: {conversationId: $id, content: $text}) { message { id } } }"""
