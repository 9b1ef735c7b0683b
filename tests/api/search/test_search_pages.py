"""Pages of results."""

from __future__ import annotations

import pytest

from resolvers.search import message_search
from tests.api.client import Api
from tests.api.search.calls import found, search
from tests.api.search.conftest import Settle
from tests.api.session_calls import Json


async def test_pages_have_no_gaps_and_no_duplicates_while_messages_arrive(api: Api, settle: Settle) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = []
    for number in range(23):
        to = (bob, group, carol)[number % 3]
        sent.append((await api.send(alice, to, f"tea {number}"))["message"]["id"])
        await api.send(alice, to, f"coffee {number}")
    await settle()
    seen: list[str] = []
    after = None
    while True:
        page = await search(api, alice, "tea", first=4, cursor=after)
        seen += [edge["node"]["id"] for edge in page["edges"]]
        has_more = page["pageInfo"]["hasNextPage"]
        assert page["complete"]
        assert page["totalAtLeast"] == len(seen) + has_more
        assert page["pageInfo"]["hasPreviousPage"] is (after is not None)
        assert page["pageInfo"]["endCursor"] == page["edges"][-1]["cursor"]
        after = page["pageInfo"]["endCursor"]
        if not has_more:
            break
        await api.send(alice, bob, "tea that came later")
    assert seen == sent[::-1]


async def test_each_edge_has_a_cursor_to_go_on_from(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for number in range(5):
        await api.send(alice, bob, f"tea {number}")
    edges = (await search(api, alice, "tea"))["edges"]
    for position, edge in enumerate(edges):
        rest = await search(api, alice, "tea", cursor=edge["cursor"])
        assert [each["cursor"] for each in rest["edges"]] == [each["cursor"] for each in edges[position + 1 :]]
        assert rest["totalAtLeast"] == 5


async def test_a_recalled_message_leaves_no_gap_in_later_pages(api: Api, settle: Settle) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = [(await api.send(alice, bob, f"tea {number}"))["message"]["id"] for number in range(6)]
    await settle()
    first = await search(api, bob, "tea", first=2)
    for message in (sent[3], sent[4]):
        await api.recall(alice, message)
    rest = await search(api, bob, "tea", first=2, cursor=first["pageInfo"]["endCursor"])
    assert [edge["node"]["content"] for edge in rest["edges"]] == ["tea 2", "tea 1"]
    assert rest["pageInfo"]["hasNextPage"]


async def test_proposals_that_do_not_match_are_skipped(api: Api, settle: Settle) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "the green tea")
    for number in range(60):
        await api.send(alice, bob, f"tea and green {number}")
    await settle()
    page = await search(api, alice, '"green tea"', first=1)
    assert [edge["node"]["content"] for edge in page["edges"]] == ["the green tea"]
    assert not page["pageInfo"]["hasNextPage"] and page["complete"] and page["totalAtLeast"] == 1


async def test_a_search_without_time_can_go_on_later(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for number in range(3):
        await api.send(alice, bob, f"tea {number}")
    first = await search(api, alice, "tea", first=1)
    after = first["pageInfo"]["endCursor"]
    monkeypatch.setattr(message_search, "SEARCH_SECONDS", -1.0)
    nothing = await search(api, alice, "tea", first=1)
    assert (nothing["edges"], nothing["complete"], nothing["totalAtLeast"]) == ([], False, 0)
    late = await search(api, alice, "tea", first=1, cursor=after)
    assert (late["edges"], late["complete"], late["totalAtLeast"]) == ([], False, 1)
    assert late["pageInfo"]["hasNextPage"]
    monkeypatch.undo()
    rest: Json = await search(api, alice, "tea", cursor=late["pageInfo"]["endCursor"])
    assert [edge["node"]["content"] for edge in rest["edges"]] == ["tea 1", "tea 0"]
    assert rest["complete"]
    assert len(await found(api, alice, "tea")) == 3
