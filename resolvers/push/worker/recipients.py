"""The users who may have to be notified of messages, in slices."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_private
from store.channels.channel_mentions import has_mentions
from store.messages.message import Message
from store.push.noted_conversations import NotedMessages
from store.store import Store

SLICE = 500
"""Users of one slice."""

_MOST_MESSAGES = 200
"""Newest messages that are read for the users that they mention."""


async def list_slice(store: Store, conversation: ConversationId, after: UserId | None) -> Sequence[UserId]:
    """Return up to SLICE possible recipients after one of them, in the order of their ids.

    In a private conversation both people, in a group its members, in a thread or channel its followers. One round trip
    to Redis if the members are known, or to MongoDB for a channel.
    """
    people = parse_private(conversation)
    if people is not None:
        return sorted(set(people[:2])) if after is None else ()
    if kind_of(conversation) is ConversationKind.CHANNEL:
        return await store.channel_member_lists.list_page(conversation, after, SLICE)
    members = sorted((await store.conversations.find_present_members(conversation)).current_members())
    start = bisect_right(members, after) if after is not None else 0
    return members[start : start + SLICE]


async def list_mentioned(store: Store, conversation: ConversationId, noted: NotedMessages) -> set[UserId]:
    """Return the users that new or recalled messages in a channel or thread mention: they need not follow it.

    One round trip to MongoDB for either, and more if there are mentions in a channel.
    """
    if kind_of(conversation) not in (ConversationKind.CHANNEL, ConversationKind.THREAD):
        return set()
    messages: list[Message] = []
    if noted.newest:
        messages += await read_messages(store, conversation, noted.first, noted.newest)
    if noted.recalled:
        recalled = await store.messages.find_many((conversation, seq) for seq in noted.recalled)
        messages += recalled.values()
    found: set[UserId] = set()
    for message in messages:
        if has_mentions(message):
            found.update(await store.channel_mentions.find(message, 0))
        elif message.kind.countable:
            found.update(message.mentions)
    return found


async def read_messages(store: Store, conversation: ConversationId, first: int, newest: int) -> list[Message]:
    """Return the newest of some messages, in order. One round trip to MongoDB."""
    place = [(max(first, newest - _MOST_MESSAGES + 1, 1), newest)]
    return await store.messages.list_between(conversation, place, _MOST_MESSAGES, newest_first=False)
