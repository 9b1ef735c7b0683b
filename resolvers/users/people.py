"""Finding people: by id, and by the beginning of a name or id (ADR 43)."""

from __future__ import annotations

from collections.abc import Sequence

from resolvers.base.app import Confab
from resolvers.base.checks import check_encodable
from resolvers.base.cursors import decode_page_text
from resolvers.base.errors import InvalidInput, NotFound
from resolvers.base.pages import Edge, Page, check_page_size
from store.base.ids import UserId, is_user_id, parse_private
from store.users.search_text import SearchQuery, parse_query
from store.users.user import User

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
    found = await app.store.users.find_many(UserId(user) for user in ids if is_user_id(user))
    return [found.get(UserId(user)) for user in ids]


async def search_users(
    app: Confab, viewer: UserId, query: str, workspace: str | None, first: int | None, after: str | None
) -> Page[User]:
    """Return a page of people that the viewer may start a conversation with, in order of names.

    An empty query finds the people who share a conversation with the viewer, even if there is a directory. Without a
    directory no other users are read, so that the response time reveals nothing about them.

    Raises InvalidInput, NotFound for a workspace, and RateLimited if the viewer's work budget has too few units.
    """
    size = check_page_size(first, "first")
    position = decode_page_text("p", after, "after")
    wanted = check_query(query)
    if workspace is not None:
        raise NotFound("there is no such workspace", field="workspaceId")
    search = app.store.user_search
    if wanted is not None and search.has_directory:
        results = await search.find_all(viewer, wanted, position, size)
    else:
        partners = await _list_partners(app, viewer)
        app.work.take(viewer, SEARCH_UNITS * len(partners))
        results = await search.find_among(partners, wanted, position, size)
    edges = [Edge(found.user, ("p", found.position)) for found in results.found]
    return Page(edges, has_next=results.has_more, has_previous=position is not None)


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
