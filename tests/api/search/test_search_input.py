"""Input of searches that is refused, and input that is unusual."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Api, Refusal, private_id
from tests.api.conftest import OpenApi
from tests.api.search.calls import SEARCH, found, refused, search

BAD_QUERIES = {
    "empty": "",
    "blank": "   ",
    "too long": "x" * 257,
    "exclusions only": '-green -"tea time"',
    "a NUL": "a\0b",
    "a lone surrogate": "tea \ud800",
}


@pytest.mark.parametrize("name", BAD_QUERIES)
async def test_queries_that_are_too_long_or_without_words_are_refused(api: Api, name: str) -> None:
    (alice,) = await api.create_users("alice")
    assert await refused(api, alice, BAD_QUERIES[name]) == Refusal("INVALID_INPUT", "query", False)


@pytest.mark.parametrize(
    "query",
    [
        "x" * 256,
        '"green tea',
        '"green" "',
        "- -- green",
        " ".join(["green"] * 40),
        "green\u200f\u202e",
        ".* ^green$ [a-z]+ (green)",
        '{"$where": "sleep(1000)"} $where $gt green',
        "green\u0301\u0301\u0301",
        "💚",
    ],
)
async def test_unusual_queries_are_answered(api: Api, query: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "something else")
    assert await found(api, alice, query) == []


BAD_FILTERS: list[tuple[dict[str, Any], Refusal]] = [
    ({"conversationIds": [f"g_{n}" for n in range(101)]}, Refusal("INVALID_INPUT", "conversationIds", False)),
    ({"conversationIds": [f"g_{n}" for n in range(1_001)]}, Refusal("INVALID_INPUT", "conversationIds", False)),
    ({"conversationIds": ["g_1"] * 101}, Refusal("INVALID_INPUT", "conversationIds", False)),
    ({"conversationIds": ["g_\ud800"]}, Refusal("INVALID_INPUT", "conversationIds", False)),
    ({"senderIds": [f"u{n}" for n in range(101)]}, Refusal("INVALID_INPUT", "senderIds", False)),
    ({"senderIds": ["\ud800"]}, Refusal("INVALID_INPUT", "senderIds", False)),
    ({"workspaceId": "\ud800"}, Refusal("INVALID_INPUT", "workspaceId", False)),
    ({"after": "1969-12-31T23:59:59Z"}, Refusal("INVALID_INPUT", "after", False)),
    (
        {"after": "2026-01-02T00:00:00Z", "before": "2026-01-01T00:00:00Z"},
        Refusal("INVALID_INPUT", "before", False),
    ),
    (
        {"after": "2026-01-01T00:00:00Z", "before": "2026-01-01T00:00:00Z"},
        Refusal("INVALID_INPUT", "before", False),
    ),
    *(
        ({"conversationIds": [id]}, Refusal("NOT_FOUND", "conversationIds", False))
        for id in ("", "x", "g_1", "c_1.1", "t_1_g_1", "b_shop", "m_1", "w_1", "s_a_g_1", "p_a_b", "$where")
    ),
    *(({"workspaceId": id}, Refusal("NOT_FOUND", "workspaceId", False)) for id in ("", "w_1", "g_1", "$where")),
]


@pytest.mark.parametrize(("filters", "refusal"), BAD_FILTERS)
async def test_invalid_filters_are_refused(api: Api, filters: dict[str, Any], refusal: Refusal) -> None:
    (alice,) = await api.create_users("alice")
    assert await refused(api, alice, **filters) == refusal


async def test_one_hidden_conversation_among_others_is_refused(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    await api.send(alice, bob, "green")
    hidden = await api.create_group(bob, carol, dave)
    ids = [private_id(alice, bob), hidden]
    assert await refused(api, alice, "green", conversationIds=ids) == Refusal("NOT_FOUND", "conversationIds", False)


async def test_duplicate_ids_change_nothing_and_empty_lists_of_ids_find_nothing(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "green")
    conversation = private_id(alice, bob)
    assert await found(api, alice, "green", conversationIds=[conversation] * 100, senderIds=[alice] * 100) == ["green"]
    assert await found(api, alice, "green", conversationIds=[]) == []
    assert await found(api, alice, "green", senderIds=[]) == []
    assert await found(api, alice, "green", has=[]) == ["green"]
    assert await found(api, alice, "green", senderIds=["nobody", "not a user\n", alice]) == ["green"]
    nothing = {"conversationIds": None, "senderIds": None, "has": None, "pinned": None, "inThreads": None}
    assert await found(api, alice, "green", **nothing, workspaceId=None, after=None, before=None) == ["green"]


async def test_cursors_of_other_searches_are_refused(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(3):
        await api.send(alice, bob, "green tea")
    conversation = private_id(alice, bob)
    cursor = (await search(api, alice, "green", first=1))["pageInfo"]["endCursor"]
    assert len((await search(api, alice, "green", first=1, cursor=cursor))["edges"]) == 1
    other = Refusal("INVALID_INPUT", "after", False)
    assert await refused(api, alice, "tea", cursor=cursor) == other
    assert await refused(api, bob, "green", cursor=cursor) == other
    assert await refused(api, alice, "green", cursor=cursor, conversationIds=[conversation]) == other
    assert await refused(api, alice, "green", cursor=cursor, senderIds=[alice]) == other
    listed = await api.data(alice, "{ offlineMessages { pageInfo { endCursor } } sessions { edges { cursor } } }")
    for wrong in ("", "x", cursor[:-2], cursor + "A", "💚", "\ud800", listed["sessions"]["edges"][0]["cursor"]):
        assert await refused(api, alice, "green", cursor=wrong) == other


async def test_the_order_and_repetition_of_ids_do_not_change_a_cursor(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(2):
        await api.send(alice, bob, "green")
    first = await search(api, alice, "green", first=1, senderIds=[alice, bob])
    after = first["pageInfo"]["endCursor"]
    rest = await search(api, alice, "green", first=1, cursor=after, senderIds=[bob, alice, bob])
    assert len(rest["edges"]) == 1 and not rest["pageInfo"]["hasNextPage"]


async def test_a_deployment_without_an_index_says_so(open_api: OpenApi) -> None:
    async with open_api("without", search="off") as api:
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob, "green")
        response = await api.run(alice, SEARCH, query="green")
        (error,) = response["errors"]
        assert error["extensions"]["code"] == "UNAVAILABLE"
        assert error["message"] == "messages cannot be searched: the operator has switched the search off"
        assert (await refused(api, alice, "")).code == "INVALID_INPUT"
        assert api.database["search"].count_documents({}) == 0
