"""Finding people: by id, and by the beginning of a name or id (ADR 43)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from resolvers.base.app import Confab
from resolvers.base.checks import check_encodable
from resolvers.base.cursors import decode_page_text
from resolvers.base.errors import InvalidInput, NotFound
from resolvers.base.pages import Edge, Page, check_page_size
from store.base.ids import UserId, is_sender_id, parse_private
from store.base.workspace_ids import WorkspaceId, is_workspace_id
from store.users.search_text import SearchQuery, parse_query
from store.users.user import User
from store.users.user_search import FoundUser

MAX_IDS = 200
LONGEST_QUERY = 100

MAX_PARTNERS = 20_000
"""Limit for private conversations, and for members of groups, in one search. The largest groups are left out."""

SEARCH_UNITS = 10
"""Units of work that a search costs for each person that may match: MongoDB needs 20 us for each (ADR 43)."""


async def find_users(app: Confab, ids: Sequence[str]) -> list[User | None]:
    """Return users in the order of the ids, None for unknown ones. At most one round trip. Raises InvalidInput."""
    if len(ids) > MAX_IDS:
        raise InvalidInput(f"give at most {MAX_IDS} ids", field="ids")
    found = await app.store.users.find_many(UserId(user) for user in ids if is_sender_id(user))
    return [found.get(UserId(user)) for user in ids]


async def search_users(
    app: Confab, viewer: UserId, query: str, workspace: str | None, first: int | None, after: str | None
) -> Page[User]:
    """Return a page of people that the viewer may start a conversation with, in order of names.

    Users that the viewer has blocked are left out.

    An empty query finds the people who share a conversation or workspace with the viewer, even if there is a directory.
    Without a directory no other users are read, so that the response time reveals nothing about them. With a workspace
    only its members are found, also by nickname.

    Raises InvalidInput, NotFound for a workspace, and RateLimited if the viewer's work budget has too few units.
    """
    size = check_page_size(first, "first")
    position = decode_page_text("p", after, "after")
    wanted = check_query(query)
    without = {viewer} | (await app.store.blocks.read(viewer)).users
    if workspace is not None:
        found, has_more = await _find_members(app, viewer, workspace, without, wanted, position, size)
        return _page(found, size, position, has_more=has_more)
    search = app.store.user_search
    if wanted is not None and search.has_directory:
        results = await search.find_all(without, wanted, position, size)
        return _page(results.found, size, position, has_more=results.has_more)
    joined = [entry.workspace for entry in await app.store.user_workspaces.list_joined(viewer)]
    parts = await asyncio.gather(
        _find_partners(app, viewer, without, wanted, position, size),
        *(
            _list_members(app, each, without, wanted, position, size)
            for each in await app.store.workspaces.find_many(joined)
        ),
    )
    by_id = {user.user.id: user for found, _ in parts for user in found}
    return _page(list(by_id.values()), size, position, has_more=any(has_more for _, has_more in parts))


_Found = tuple[list[FoundUser], bool]
"""Users, and whether others follow."""


def _page(found: Sequence[FoundUser], size: int, position: str | None, *, has_more: bool) -> Page[User]:
    ordered = sorted(found, key=lambda found: found.position)
    edges = [Edge(found.user, ("p", found.position)) for found in ordered[:size]]
    return Page(edges, has_next=has_more or len(ordered) > size, has_previous=position is not None)


async def _find_partners(
    app: Confab,
    viewer: UserId,
    without: Collection[UserId],
    wanted: SearchQuery | None,
    position: str | None,
    size: int,
) -> _Found:
    partners = (await _list_partners(app, viewer)).difference(without)
    app.work.take(viewer, SEARCH_UNITS * len(partners))
    results = await app.store.user_search.find_among(partners, wanted, position, size)
    return results.found, results.has_more


async def _find_members(
    app: Confab,
    viewer: UserId,
    workspace: str,
    without: Collection[UserId],
    wanted: SearchQuery | None,
    position: str | None,
    size: int,
) -> _Found:
    """Return members of a workspace of the viewer. Raises NotFound."""
    known = WorkspaceId(workspace)
    version = await app.store.policies.current_version(known) if is_workspace_id(workspace) else None
    if version is None or await app.store.policies.find_member(known, viewer, version) is None:
        raise NotFound("there is no such workspace", field="workspaceId")
    return await _list_members(app, known, without, wanted, position, size)


async def _list_members(
    app: Confab,
    workspace: WorkspaceId,
    without: Collection[UserId],
    wanted: SearchQuery | None,
    position: str | None,
    size: int,
) -> _Found:
    results = await app.store.member_search.find_users(workspace, without, wanted, position, size)
    users = await app.store.users.find_many(member.facts.user for member in results.found)
    found = [
        FoundUser(users[member.facts.user], member.position) for member in results.found if member.facts.user in users
    ]
    return found, results.has_more


async def _list_partners(app: Confab, viewer: UserId) -> set[UserId]:
    """Return the people who share a private conversation or a current group with a user."""
    store = app.store
    partners = set[UserId]()
    for conversation in await store.session_rows.list_private(viewer, MAX_PARTNERS):
        partners.update((parse_private(conversation) or ())[:2])
    groups = await store.sessions.list_groups(viewer)
    members = await store.conversations.list_current_members(groups, MAX_PARTNERS)
    for users in members.values():
        # The list of groups may be older than a removal.
        if viewer in users:
            partners.update(users)
    partners.discard(viewer)
    return partners


def check_query(query: str) -> SearchQuery | None:
    """Return a normalized query, or None if it is empty. Raises InvalidInput."""
    if len(query) > LONGEST_QUERY:
        raise InvalidInput(f"query must have at most {LONGEST_QUERY} characters", field="query")
    check_encodable(query, "query")
    return parse_query(query)
