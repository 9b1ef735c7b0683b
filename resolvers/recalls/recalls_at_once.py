"""Recalls many messages: at the same time, except those that change the same document."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from resolvers.base.app import Confab
from resolvers.messages.recalling import CheckRight, recall
from store.base.ids import UserId, parse_thread
from store.messages.message import Message

_AT_ONCE = 20
"""Recalls that run at once. Their writes and calls share round trips, and leave room for those of users."""


async def recall_all(
    app: Confab, messages: Iterable[Message], by: UserId, check: CheckRight, judged_version: int | None
) -> list[Message]:
    """Recall messages, and return them as they are then, in no order. See `recall`.

    Raises the first error after all others have ended.
    """
    alone = [message for message in messages if _counts_in_shared_document(message)]
    plain = [message for message in messages if not _counts_in_shared_document(message)]
    slots = asyncio.Semaphore(_AT_ONCE)

    async def recall_one(message: Message) -> Message:
        async with slots:
            return await recall(app, message, by, check, judged_version)

    async def recall_in_turn() -> list[Message]:
        return [await recall(app, message, by, check, judged_version) for message in alone]

    outcomes: Sequence[Message | BaseException] = await asyncio.gather(*map(recall_one, plain), return_exceptions=True)
    recalled = await recall_in_turn()
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        recalled.append(outcome)
    return recalled


def _counts_in_shared_document(message: Message) -> bool:
    """Return whether a recall changes counts in the conversation's document: two at the same time would conflict."""
    return parse_thread(message.conversation) is not None or message.is_pinned
