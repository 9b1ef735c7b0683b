"""Users whose presence a viewer may see: they share a conversation or a workspace (ADR 80).

Users who do not exist take the same reads as strangers, so the time does not tell who exists.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput
from store.base.ids import USER_ID_RULE, ConversationId, UserId, is_sender_id
from store.base.workspace_ids import WorkspaceId
from store.blocks.block_rows import Block
from store.presence.shown_presence import ShownPresence

MAX_USERS = 200
"""Users whose presence one call or one subscription shows."""

_ROWS_AT_ONCE = 4_000
"""Rows that one query looks for, each a unit of work. MongoDB needs about 2 us for each."""

_MAX_PLACES = 4_000
"""Limit for the users times the viewer's groups. Beyond it the groups of the users are listed, which costs less."""

_Place = TypeVar("_Place", tuple[UserId, WorkspaceId], tuple[UserId, ConversationId])
"""A user, and a workspace or group."""


def check_users(ids: Sequence[str]) -> list[UserId]:
    """Return the users of an argument `userIds`. Raises InvalidInput for more than 200, and for malformed ids."""
    if len(ids) > MAX_USERS:
        raise InvalidInput(f"give at most {MAX_USERS} ids", field="userIds")
    if not all(map(is_sender_id, ids)):
        raise InvalidInput(f"an id of a user has {USER_ID_RULE}", field="userIds")
    return [UserId(user) for user in ids]


class VisibleUsers(NamedTuple):
    """The users whose presence a viewer may see.

    Attributes:
        users: These users.
        blockers: Users who have blocked the viewer, visible or not, with the presence that the viewer sees instead: as
            if they had left when they blocked the viewer (ADR 95).
    """

    users: set[UserId]
    blockers: Mapping[UserId, ShownPresence]


async def find_visible(app: Confab, viewer: UserId, users: Collection[UserId]) -> VisibleUsers:
    """Return those of at most 200 users whose presence a viewer may see: their own, and of users they share with.

    Shared are private conversations, also those without a message, present memberships of groups, and workspaces.
    One to four round trips to MongoDB; none if the viewer asks only for their own.
    Raises RateLimited if the viewer's work budget has too few units.
    """
    unknown = set(users) - {viewer}
    if not unknown:
        return VisibleUsers(set(users), {})
    store = app.store
    app.work.take(viewer, len(unknown))
    blockers, partners, joined, groups = await store.mongo.gather(
        store.blocks.rows.find_blockers(viewer, unknown),
        store.shared_conversations.list_partners(viewer, unknown),
        store.user_workspaces.list_joined(viewer),
        store.shared_conversations.list_groups(viewer),
    )
    unknown -= partners
    if unknown:
        existing, ended = await store.mongo.gather(
            # The rows of deleted workspaces are removed later.
            store.workspaces.list_existing(each.workspace for each in joined),
            store.shared_conversations.list_ended(groups),
        )
        unknown -= await _find_colleagues(app, viewer, existing, unknown)
        unknown -= await _find_in_groups(app, viewer, [group for group in groups if group not in ended], unknown)
    return VisibleUsers(set(users) - unknown, presence_for_blocked(blockers))


async def find_visible_lately(app: Confab, viewer: UserId, users: Collection[UserId]) -> VisibleUsers:
    """Like `find_visible`, but users that the viewer could see within the last minute are not judged again."""
    now_ms = app.store.clock.now_ms()
    known = app.audiences.find(viewer, users, now_ms)
    found = (await find_visible(app, viewer, set(users) - known)).users
    app.audiences.remember(viewer, found, now_ms)
    return VisibleUsers(known | found, presence_for_blocked(await app.blocker_cache.find(viewer, users)))


def presence_for_blocked(blockers: Mapping[UserId, Block]) -> dict[UserId, ShownPresence]:
    """Return the presence that a blocked user sees of each blocker."""
    return {user: ShownPresence(user, last_active_at_ms=block.seen_ms) for user, block in blockers.items()}


async def _find_colleagues(
    app: Confab, viewer: UserId, workspaces: Collection[WorkspaceId], users: Collection[UserId]
) -> set[UserId]:
    """Return those of some users who are in one of the viewer's workspaces."""
    places = ((user, workspace) for workspace in workspaces for user in users)
    return await _find_among(app, viewer, places, app.store.user_workspaces.find_members)


async def _find_in_groups(
    app: Confab, viewer: UserId, groups: Collection[ConversationId], users: Collection[UserId]
) -> set[UserId]:
    """Return those of some users who are members of one of the viewer's groups."""
    places: Iterable[tuple[UserId, ConversationId]] = ((user, group) for group in groups for user in users)
    if len(groups) * len(users) > _MAX_PLACES:
        places = await _list_places(app, viewer, set(groups), users)
    return await _find_among(app, viewer, places, app.store.shared_conversations.find_members)


async def _list_places(
    app: Confab, viewer: UserId, groups: Collection[ConversationId], users: Collection[UserId]
) -> list[tuple[UserId, ConversationId]]:
    """Return which of some users are or were in which of the viewer's groups, by the users' own sessions."""
    places, after = list[tuple[UserId, ConversationId]](), None
    while True:
        app.work.take(viewer, len(users))
        page = await app.store.shared_conversations.list_groups_of(users, after, _ROWS_AT_ONCE)
        app.work.charge(viewer, len(page))
        places += [place for place in page if place[1] in groups]
        if len(page) < _ROWS_AT_ONCE:
            return places
        after = page[-1]


async def _find_among(
    app: Confab, viewer: UserId, places: Iterable[_Place], find: Callable[[Sequence[_Place]], Awaitable[set[UserId]]]
) -> set[UserId]:
    """Return the users who are at one of their places at least."""
    remaining, found = iter(places), set[UserId]()
    while True:
        wanted = list(islice((place for place in remaining if place[0] not in found), _ROWS_AT_ONCE))
        if not wanted:
            return found
        app.work.take(viewer, len(wanted))
        found |= await find(wanted)
