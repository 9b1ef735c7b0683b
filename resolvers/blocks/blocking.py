"""Blocking and unblocking users, and the users that a user has blocked (ADR 95)."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page_text
from resolvers.base.errors import InvalidInput, LimitReached
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.base.rate_limits import check_rate
from resolvers.users.users import access_users
from store.base.ids import UserId
from store.blocks.block_rows import MAX_BLOCKS, Block
from store.users.user import User

_FIELD = "userId"


async def block_user(app: Confab, blocker: UserId, user: str) -> User:
    """Block a user. When this returns, they get no further message into a private conversation with the blocker.

    A user who is blocked stays so. Raises InvalidInput for the blocker's own id, NotFound, LimitReached, RateLimited.
    """
    check_rate(app.store.rate_limits.group_changes, blocker)
    (other,) = await _access_other(app, blocker, user)
    # From now on the other person sees that the blocker was last active at this time.
    seen = (await app.presence.read([blocker]))[blocker].last_active_at_ms
    if not await app.store.blocks.add(blocker, Block(other, app.store.clock.now_ms(), seen)):
        raise LimitReached(f"you can block at most {MAX_BLOCKS} users; unblock somebody first", field=_FIELD)
    return (await app.store.users.list_shown([other]))[0]


async def unblock_user(app: Confab, blocker: UserId, user: str) -> User:
    """Unblock a user. One who is not blocked stays so.

    Raises InvalidInput for the blocker's own id, NotFound and RateLimited.
    """
    check_rate(app.store.rate_limits.group_changes, blocker)
    (other,) = await _access_other(app, blocker, user)
    await app.store.blocks.remove(blocker, other)
    return (await app.store.users.list_shown([other]))[0]


async def list_blocked(app: Confab, blocker: UserId, first: int | None, after: str | None) -> Page[User]:
    """Return a page of the users that a user has blocked, the latest block first. Raises InvalidInput."""
    size = check_page_size(first, "first")
    position = decode_page_text("b", after, "after")
    blocks = sorted(await app.store.blocks.rows.list_blocks(blocker), key=_key_of, reverse=True)
    rest = [block for block in blocks if position is None or _key_of(block) < position]
    shown = await app.store.users.list_shown([block.user for block in rest[:size]])
    edges = [Edge(user, ("b", _key_of(block))) for user, block in zip(shown, rest[:size], strict=True)]
    return Page(edges, has_next=len(rest) > size, has_previous=position is not None)


def _key_of(block: Block) -> str:
    """Return the position of a block: by time, then by user, so that a page after an ended block stays the same."""
    return f"{block.at_ms:013d} {block.user}"


async def _access_other(app: Confab, blocker: UserId, user: str) -> list[UserId]:
    if user == blocker:
        raise InvalidInput("you can't block yourself; name another user", field=_FIELD)
    return await access_users(app, [user], _FIELD)
