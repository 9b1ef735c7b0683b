"""Calls that search for people."""

from __future__ import annotations

from typing import Any

from tests.api.client import Api, Json

SEARCH = """query ($text: String!, $first: Int = 100, $after: String) {
    searchUsers(query: $text, first: $first, after: $after) {
        edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }"""
MEMBERS = """query ($id: ID!, $text: String, $first: Int = 100, $after: String) { group(id: $id) {
    members(query: $text, first: $first, after: $after) {
        edges { cursor node { role user { id } } } pageInfo { hasNextPage hasPreviousPage endCursor } } } }"""


async def find_page(api: Api, viewer: str, query: str, **page: Any) -> Json:
    found: Json = (await api.data(viewer, SEARCH, text=query, **page))["searchUsers"]
    return found


async def find_people(api: Api, viewer: str, query: str, page: int = 100) -> list[str]:
    """Return the ids of all people that a search finds, read page by page."""
    found: list[str] = []
    after = None
    while True:
        people = await find_page(api, viewer, query, first=page, after=after)
        assert people["pageInfo"]["hasPreviousPage"] is (after is not None)
        found += [edge["node"]["id"] for edge in people["edges"]]
        assert len(set(found)) == len(found)
        if not people["pageInfo"]["hasNextPage"]:
            return found
        after = people["pageInfo"]["endCursor"]
        assert after == people["edges"][-1]["cursor"]


async def find_members(api: Api, viewer: str, group: str, query: str, page: int = 100) -> list[str] | None:
    """Return the ids of all members that a search finds, read page by page. None if the list is null."""
    found: list[str] = []
    after = None
    while True:
        answer = await api.data(viewer, MEMBERS, id=group, text=query, first=page, after=after)
        members = answer["group"]["members"]
        if members is None:
            return None
        found += [edge["node"]["user"]["id"] for edge in members["edges"]]
        assert len(set(found)) == len(found)
        if not members["pageInfo"]["hasNextPage"]:
            return found
        after = members["pageInfo"]["endCursor"]
