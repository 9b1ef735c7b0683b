"""Queries that search messages."""

from __future__ import annotations

import strawberry

from resolvers.search.message_search import search_messages
from resolvers.search.search_filter import SearchFilter
from schema.base.context import Info
from schema.search.search_types import SearchConnection, SearchFilterInput, search_connection


@strawberry.type
class SearchQueries:
    @strawberry.field(
        description="Messages the caller may read at this moment, newest first: the index proposes, the current rights "
        'decide. query, 1 to 256 characters: words (all must occur; a prefix of the last one is enough), "exact '
        'phrase", -without; only exclusions, or no word at all: INVALID_INPUT. Words are separated as Unicode does, '
        "and where scripts meet; names, addresses and code are also found as typed (foo_bar, 10.0.0.1, C++). Case and "
        "diacritics are ignored. Chinese, Japanese and Korean text is found by any part of two characters or more. "
        "Without conversationIds: the caller's present conversations, followed channels and followed threads; others "
        "they may read only when named. A message is found within 5 s of being sent, as edited, and no longer once "
        "recalled. A cursor of another search: INVALID_INPUT."
    )
    async def search_messages(
        self,
        info: Info,
        query: str,
        filter: SearchFilterInput | None = None,
        first: int | None = 25,
        after: str | None = None,
    ) -> SearchConnection:
        context = info.context
        given = filter.to_filter() if filter is not None else SearchFilter()
        result = await search_messages(context.app, context.viewer, query, given, first, after, context.page_sizes)
        return search_connection(result)
