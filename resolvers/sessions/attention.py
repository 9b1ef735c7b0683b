"""Attention: the numbers for a client's badge."""

from __future__ import annotations

from typing import NamedTuple

from resolvers.base.app import Confab
from store.base.ids import UserId
from store.sessions.session_lists import AllTotals


class Attention(NamedTuple):
    """The unread messages, mentions and threads of a user, without muted sessions.

    Attributes:
        unread: Unread messages: the user's `total_unread`.
        mentions: Unread messages that mention the user or everybody.
        threads: Followed threads with unread replies.
    """

    unread: int
    mentions: int
    threads: int


async def count_attention(app: Confab, user: UserId) -> Attention:
    """Return the numbers of a user. They are derived from read positions.

    One round trip to Redis, and a second one if there are mentions in channels.
    """
    return await attention_from(app, user, await app.store.sessions.read_all_totals(user))


async def attention_from(app: Confab, user: UserId, totals: AllTotals) -> Attention:
    """Return the numbers of a user. Mentions in channels that the user can't see now do not count."""
    visible = await app.store.channel_sessions.find_places(user, totals.in_channels)
    mentions = sum(count for channel, count in totals.in_channels.items() if channel in visible)
    return Attention(totals.messages, totals.mentions + mentions, totals.threads)
