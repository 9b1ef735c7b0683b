"""Searches over the API, read page by page."""

from __future__ import annotations

from dataclasses import dataclass

from tests.api.client import Api, Json

SEARCH = """query ($query: String!, $filter: SearchFilter, $first: Int = 25, $after: String) {
    searchMessages(query: $query, filter: $filter, first: $first, after: $after) {
        totalAtLeast complete indexedUpTo pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
        edges { cursor highlights { start end }
            node { id conversationId seq content state editCount createdAt sender { id } } } } }"""


@dataclass(frozen=True)
class Found:
    """All pages of a search. `complete`: each of them was complete."""

    pages: list[Json]

    @property
    def edges(self) -> list[Json]:
        return [edge for page in self.pages for edge in page["edges"]]

    @property
    def ids(self) -> list[str]:
        return [edge["node"]["id"] for edge in self.edges]

    @property
    def contents(self) -> list[str]:
        return [edge["node"]["content"] for edge in self.edges]

    @property
    def complete(self) -> bool:
        return all(page["complete"] for page in self.pages)


async def search(
    api: Api, user: str, query: str, filter: Json | None = None, first: int = 25, after: str | None = None
) -> Json:
    """Return one page of a search."""
    answer = await api.data(user, SEARCH, query=query, filter=filter, first=first, after=after)
    page: Json = answer["searchMessages"]
    return page


async def search_all(api: Api, user: str, query: str, filter: Json | None = None, first: int = 25) -> Found:
    """Return all pages of a search, and check how they follow one another."""
    pages: list[Json] = []
    after = None
    while True:
        page = await search(api, user, query, filter, first, after)
        edges, info = page["edges"], page["pageInfo"]
        cursors = [edge["cursor"] for edge in edges]
        assert len(edges) <= first and page["totalAtLeast"] >= len(edges)
        assert (info["startCursor"], info["endCursor"]) == ((cursors[0], cursors[-1]) if cursors else (None, None))
        assert info["hasPreviousPage"] is (after is not None)
        # A page after this one that turns out to be empty would reveal messages that the caller cannot read.
        assert edges or not pages or not pages[-1]["complete"], "hasNextPage before an empty page"
        assert not info["hasNextPage"] or edges, "an empty page with a next page"
        pages.append(page)
        after = info["endCursor"]
        if not info["hasNextPage"]:
            return Found(pages)
