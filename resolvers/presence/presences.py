"""The presence of users as a viewer sees it."""

from __future__ import annotations

from collections.abc import Sequence

from resolvers.base.app import Confab
from resolvers.presence.audience import MAX_USERS, VisibleUsers, check_users, find_visible, find_visible_lately
from store.base.ids import UserId
from store.presence.shown_presence import ShownPresence


async def list_presences(app: Confab, viewer: UserId, ids: Sequence[str]) -> list[ShownPresence]:
    """Return the presence of up to 200 users in the order of their ids.

    Users who do not share a conversation or workspace with the viewer, and users who do not exist, were never there.
    Raises InvalidInput and RateLimited.
    """
    users = check_users(ids)
    shown = await _read(app, await find_visible(app, viewer, set(users)))
    return [shown.get(user) or ShownPresence(user) for user in users]


async def find_presences(
    app: Confab, viewer: UserId, users: Sequence[UserId], *, in_event: bool
) -> list[ShownPresence | None]:
    """Return the presence of users in their order; None for those who share nothing with the viewer.

    in_event: for an event about something else. A user who shared something within the last minute counts then, so that
    not every event reads who does. Raises RateLimited.
    """
    find = find_visible_lately if in_event else find_visible
    shown = dict[UserId, ShownPresence]()
    for start in range(0, len(users), MAX_USERS):
        shown |= await _read(app, await find(app, viewer, users[start : start + MAX_USERS]))
    return [shown.get(user) for user in users]


async def _read(app: Confab, audience: VisibleUsers) -> dict[UserId, ShownPresence]:
    """Return the presence of visible users. Blockers are read too, so that the time reveals nothing."""
    shown = await app.presence.read(audience.users)
    return {user: audience.blockers.get(user, each) for user, each in shown.items()}
