"""The users who may have to be notified of messages, in slices."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_private
from store.base.workspace_ids import RoleId
from store.channels.channel_mentions import has_mentions
from store.messages.message import Message
from store.push.noted_conversations import NotedMessages
from store.store import Store

SLICE = 500
"""Users of one slice."""

PAGE = 200
"""Messages of a conversation that are in memory at the same time. Decisions read the newest ones only."""

MOST_MESSAGES = 5_000
"""Newest messages that are read for the users that they mention, in pages."""

_MENTIONS_AT_ONCE = 20


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

    One round trip to MongoDB for each page of messages, and more if there are mentions in a channel.
    """
    if kind_of(conversation) not in (ConversationKind.CHANNEL, ConversationKind.THREAD):
        return set()
    found: set[UserId] = set()
    if noted.newest:
        for first in range(max(noted.first, noted.newest - MOST_MESSAGES + 1, 1), noted.newest + 1, PAGE):
            last = min(first + PAGE - 1, noted.newest)
            found |= await _mentioned_in(store, await read_messages(store, conversation, first, last))
    if noted.recalled:
        recalled = await store.messages.find_many((conversation, seq) for seq in noted.recalled)
        found |= await _mentioned_in(store, recalled.values())
    return found


async def _mentioned_in(store: Store, messages: Iterable[Message]) -> set[UserId]:
    found: set[UserId] = set()
    different: dict[tuple[UserId, frozenset[UserId], frozenset[RoleId]], Message] = {}
    for message in messages:
        if has_mentions(message):
            different[message.sender, frozenset(message.mentions), frozenset(message.mentioned_roles)] = message
        elif message.kind.countable:
            found.update(message.mentions)
    judged = list(different.values())
    for start in range(0, len(judged), _MENTIONS_AT_ONCE):
        some = judged[start : start + _MENTIONS_AT_ONCE]
        for users in await asyncio.gather(*(store.channel_mentions.find(message, 0) for message in some)):
            found.update(users)
    return found


async def read_messages(store: Store, conversation: ConversationId, first: int, newest: int) -> list[Message]:
    """Return the newest of some messages, in order, at most PAGE. One round trip to MongoDB."""
    place = [(max(first, newest - PAGE + 1, 1), newest)]
    return await store.messages.list_between(conversation, place, PAGE, newest_first=False)
