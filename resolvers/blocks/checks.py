"""Refusals of what a blocked user may not do in a private conversation."""

from __future__ import annotations

from collections.abc import Sequence

from resolvers.base.app import Confab
from resolvers.base.errors import Blocked
from resolvers.conversations.access import Access
from store.base.ids import UserId


def blocked_error() -> Blocked:
    """Return the error for a user who writes privately to somebody who blocked them."""
    return Blocked("this user has blocked you: you can't write to them privately")


def check_not_blocked(access: Access, user: UserId) -> None:
    """Raise Blocked in a private conversation, or a thread in one, if the other person has blocked the user.

    No round trip. A message is judged again at its reservation; other changes are not.
    """
    parent = access.parent if access.parent is not None else access
    if user in parent.head.blocked:
        raise blocked_error()


async def check_not_blocked_by(app: Confab, user: UserId, other: UserId) -> None:
    """Raise Blocked if another user has blocked a user. One round trip to MongoDB."""
    if await app.store.blocks.rows.find_blockers(user, [other]):
        raise blocked_error()


async def without_blockers(app: Confab, user: UserId, others: Sequence[UserId]) -> list[UserId]:
    """Return other users without those who have blocked a user. One round trip to MongoDB, if there are any users."""
    blockers = await app.store.blocks.rows.find_blockers(user, others) if others else {}
    return [other for other in others if other not in blockers]
