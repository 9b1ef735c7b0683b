"""Searches for messages."""

from __future__ import annotations

from typing import Any

from tests.api.client import Api, Json, Refusal, wait_until

SEARCH = """query ($query: String!, $filter: SearchFilter, $first: Int, $after: String) {
    searchMessages(query: $query, filter: $filter, first: $first, after: $after) {
        totalAtLeast complete indexedUpTo pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
        edges { cursor highlights { start end } node {
            id seq conversationId content state editCount sender { id } broadcastOf { id } } } } }"""


async def search(
    api: Api, user: Any, query: str, *, first: int | None = 100, cursor: str | None = None, **filters: Any
) -> Json:
    """Return a page of results. filters: Fields of the filter; none: no filter."""
    given = filters or None
    found: Json = (await api.data(user, SEARCH, query=query, filter=given, first=first, after=cursor))["searchMessages"]
    return found


async def found(api: Api, user: Any, query: str, **filters: Any) -> list[str]:
    """Return the texts of all results of a complete search, newest first."""
    page = await search(api, user, query, **filters)
    assert page["complete"] and not page["pageInfo"]["hasNextPage"]
    assert page["totalAtLeast"] == len(page["edges"])
    return [edge["node"]["content"] for edge in page["edges"]]


async def refused(api: Api, user: Any, query: str = "word", *, cursor: str | None = None, **filters: Any) -> Refusal:
    return await api.expect_refusal(user, SEARCH, query=query, filter=filters or None, first=5, after=cursor)


async def wait_until_indexed(api: Api) -> None:
    """Wait until no message waits for the index."""

    async def is_empty() -> bool:
        return not (await api.services.app.store.unindexed_messages.list_all()).messages

    await api.wait_until_idle()
    await wait_until(is_empty)
