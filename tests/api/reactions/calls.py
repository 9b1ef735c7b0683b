"""Calls of the API about reactions, and a check of what is stored."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.api.client import Api, Json, Refusal

REACTIONS = "reactions { emoji count viewerReacted firstAt users { id } }"
ADD = f"mutation ($id: ID!, $emoji: String!) {{ addReaction(messageId: $id, emoji: $emoji) {{ id {REACTIONS} }} }}"
REMOVE = f"""mutation ($id: ID!, $emoji: String!) {{
    removeReaction(messageId: $id, emoji: $emoji) {{ id {REACTIONS} }} }}"""
CLEAR = f"mutation ($id: ID!, $emoji: String) {{ clearReactions(messageId: $id, emoji: $emoji) {{ id {REACTIONS} }} }}"
MESSAGE = f"query ($id: ID!) {{ message(id: $id) {{ state {REACTIONS} }} }}"
REACTORS = """query ($id: ID!, $emoji: String!, $first: Int = 50, $after: String) {
    reactors(messageId: $id, emoji: $emoji, first: $first, after: $after) {
        pageInfo { hasNextPage hasPreviousPage endCursor } edges { cursor node { id } } } }"""

Shown = list[tuple[str, int, bool]]
"""Emoji, count and viewerReacted of each reaction."""


async def react(api: Api, user: str, message: str, emoji: str = "👍") -> Shown:
    """Add a reaction. Return the message's reactions."""
    return shown((await api.data(user, ADD, id=message, emoji=emoji))["addReaction"])


async def take_back(api: Api, user: str, message: str, emoji: str = "👍") -> Shown:
    """Remove the user's reaction. Return the message's reactions."""
    return shown((await api.data(user, REMOVE, id=message, emoji=emoji))["removeReaction"])


async def clear(api: Api, user: str, message: str, emoji: str | None = None) -> Shown:
    """Clear reactions. Return the message's reactions."""
    return shown((await api.data(user, CLEAR, id=message, emoji=emoji))["clearReactions"])


async def reactions_of(api: Api, user: str, message: str) -> Shown:
    """Return a message's reactions as a user sees them."""
    return shown((await api.data(user, MESSAGE, id=message))["message"])


def shown(message: Json) -> Shown:
    """Return the reactions of a message in short."""
    return [(each["emoji"], each["count"], each["viewerReacted"]) for each in message["reactions"]]


async def reactors_of(api: Api, user: str, message: str, emoji: str = "👍", page: int = 50) -> list[str]:
    """Return all users who reacted with an emoji, read in pages."""
    found, after = list[str](), None
    while True:
        answer = (await api.data(user, REACTORS, id=message, emoji=emoji, first=page, after=after))["reactors"]
        found += [edge["node"]["id"] for edge in answer["edges"]]
        if not answer["pageInfo"]["hasNextPage"]:
            return found
        after = answer["pageInfo"]["endCursor"]


async def expect_refusal(api: Api, user: str, query: str, refusal: Refusal, **variables: Any) -> None:
    """Fail unless a call is refused, and changes nothing that is stored."""
    stored = await api.stored_hashes()
    assert await api.expect_refusal(user, query, **variables) == refusal
    assert await api.stored_hashes() == stored


def check_summaries(api: Api) -> None:
    """Fail unless the summary in each message's row equals the rows of its reactions."""
    rows = defaultdict[tuple[int, str], list[str]](list)
    for row in api.database["reactions"].find().sort("o"):
        _, _, emoji, user = row["_id"].split(" ")
        assert emoji == row["e"]
        rows[row["m"], emoji].append(user)
    summaries = {
        (message["_id"], summary[0]): summary
        for message in api.database["messages"].find({"rx": {"$exists": True}})
        for summary in message["rx"]
    }
    assert summaries.keys() == rows.keys()
    for place, users in rows.items():
        _, count, named, _, *keys = summaries[place]
        assert (count, named) == (len(users), users[:5]), place
        assert not keys or len(keys[0]) == 12 * (count - 5)
