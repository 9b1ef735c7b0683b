"""Searches for messages: the index proposes messages, and the stored messages decide (ADR 85)."""

from __future__ import annotations

import time
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.checks import check_encodable
from resolvers.base.errors import InvalidInput, Unavailable
from resolvers.base.pages import Edge, Page, PageSizes
from resolvers.search.search_cursors import SearchCursors
from resolvers.search.search_filter import SearchFilter
from resolvers.search.search_run import FoundMessage, SearchRun, SearchTask
from resolvers.search.search_scope import find_scope
from store.base.ids import UserId
from store.text.message_query import MessageQuery, NothingToFind, parse_message_query

LONGEST_QUERY = 256

SEARCH_SECONDS = 2.0
"""Time limit of a search. It returns the messages that it has found until then."""

CONVERSATION_UNITS = 5
"""Units of work that a search costs for each searched conversation. MongoDB needs about 10 us of CPU for each."""


@dataclass(frozen=True, slots=True)
class SearchResults:
    """A page of results, newest first.

    Attributes:
        page: The messages.
        total_at_least: Number of results up to the end of this page, and one more if another page follows.
        complete: Everything was searched.
        indexed_up_to_ms: The index has all messages up to this time.
    """

    page: Page[FoundMessage]
    total_at_least: int
    complete: bool
    indexed_up_to_ms: int


async def search_messages(
    app: Confab, viewer: UserId, query: str, given: SearchFilter, first: int | None, after: str | None, sizes: PageSizes
) -> SearchResults:
    """Return a page of the messages that match a query and that the viewer may read now, newest first.

    If everything is cached: two round trips to MongoDB, and two to Redis, or one if conversations are named.

    Raises InvalidInput, NotFound for a conversation or workspace that the viewer can't see, RateLimited if the viewer's
    work budget has too few units, and Unavailable if this deployment has no index.
    """
    deadline = time.monotonic() + SEARCH_SECONDS
    size = sizes.check(first, "first")
    wanted, given = check_query(query), given.checked()
    cursors = SearchCursors(viewer, query, given)
    start = cursors.decode(after)
    index = app.store.search_index
    if index is None:
        raise Unavailable("messages cannot be searched: the operator has switched the search off")
    scope, completeness = await app.store.cache.gather(
        find_scope(app, viewer, given), app.store.search_completeness.read()
    )
    app.work.take(viewer, CONVERSATION_UNITS * len(scope.conversations))
    run = SearchRun(app, index, SearchTask(viewer, wanted, given, scope, deadline))
    before, earlier = start if start is not None else (None, 0)
    if scope.conversations and given.senders != ():
        await run.find(before, completeness.waiting.messages, size + 1)
    edges = [
        Edge(each, cursors.position(each.message.id, earlier + number))
        for number, each in enumerate(run.found[:size], start=1)
    ]
    has_more = len(run.found) > size
    page = Page(edges, has_next=has_more, has_previous=start is not None)
    if run.timed_out and run.last_read is not None and not has_more:
        stopped_at = cursors.position(run.last_read, earlier + len(edges))
        page = Page(edges, has_next=True, has_previous=start is not None, end_position=stopped_at)
    return SearchResults(
        page,
        total_at_least=earlier + len(edges) + has_more,
        complete=scope.is_whole and completeness.is_complete and not run.timed_out,
        indexed_up_to_ms=completeness.indexed_up_to_ms,
    )


def check_query(query: str) -> MessageQuery:
    """Return the parsed query. Raises InvalidInput."""
    if not 1 <= len(query) <= LONGEST_QUERY:
        raise InvalidInput(f"query must have 1 to {LONGEST_QUERY} characters", field="query")
    if "\0" in query:
        raise InvalidInput("query must not contain a NUL character", field="query")
    check_encodable(query, "query")
    try:
        return parse_message_query(query)
    except NothingToFind:
        raise InvalidInput("query must have a word that is not excluded", field="query") from None
