"""Blocking and unblocking: the list, its limit, and bad input."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import UserId
from store.blocks.block_rows import MAX_BLOCKS, Block
from subscriptions.blocks import blocker_cache
from tests.api.blocks.calls import BLOCK, BLOCKED, UNBLOCK, block, blocked, unblock
from tests.api.client import TIMEOUT_SECONDS, Api, Refusal, gather_all
from tests.api.conftest import OpenApi

SEARCH = "query ($text: String!, $id: ID) { searchUsers(query: $text, workspaceId: $id) { edges { node { id } } } }"


async def test_the_list_shows_the_latest_block_first_in_pages(api: Api, other_api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(5)))
    for other in others:
        await block(api, alice, other)
    listed = await blocked(other_api, alice)
    assert set(listed) == set(others)
    first = (await api.data(alice, BLOCKED, first=2))["blockedUsers"]
    assert [edge["node"]["id"] for edge in first["edges"]] == listed[:2] and first["pageInfo"]["hasNextPage"]
    # The page after a block that has ended is the same.
    await unblock(api, alice, listed[1])
    second = (await api.data(alice, BLOCKED, first=2, after=first["pageInfo"]["endCursor"]))["blockedUsers"]
    assert [edge["node"]["id"] for edge in second["edges"]] == listed[2:4]
    assert await blocked(api, others[0]) == []


async def test_repeating_changes_nothing(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await unblock(api, alice, bob)
    assert (await api.stored_documents()).get("blocks", {}).get(alice) is None
    await block(api, alice, bob)
    before = (await api.stored_documents())["blocks"][alice]
    await block(other_api, alice, bob)
    assert (await api.stored_documents())["blocks"][alice] == before
    await unblock(api, alice, bob)
    before = (await api.stored_documents())["blocks"][alice]
    await unblock(other_api, alice, bob)
    assert (await api.stored_documents())["blocks"][alice] == before
    assert await blocked(api, alice) == []


@pytest.mark.parametrize("mutation", [BLOCK, UNBLOCK])
async def test_oneself_and_unknown_users_are_refused(api: Api, mutation: str) -> None:
    (alice,) = await api.create_users("alice")
    before = await api.stored_documents()
    assert await api.expect_refusal(alice, mutation, id=alice) == Refusal("INVALID_INPUT", "userId")
    for unknown in ("nobody", "", "two words", "x" * 300):
        assert await api.expect_refusal(alice, mutation, id=unknown) == Refusal("NOT_FOUND", "userId")
    assert (await api.expect_refusal(None, mutation, id=alice)).code == "UNAUTHENTICATED"
    assert await api.stored_documents() == before


async def test_the_1001st_block_is_refused(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    rows = api.services.app.store.blocks.rows
    for number in range(MAX_BLOCKS - 1):
        await rows.add(UserId(alice), Block(UserId(f"many{number}"), number, None))
    outcomes = await gather_all(*(api.run(alice, BLOCK, id=user) for user in (bob, carol)))
    codes = [outcome["errors"][0]["extensions"]["code"] for outcome in outcomes if "errors" in outcome]
    assert codes == ["LIMIT_REACHED"]
    winner = bob if "errors" not in outcomes[0] else carol
    before = (await api.stored_documents())["blocks"][alice]
    loser = carol if winner == bob else bob
    assert await api.expect_refusal(alice, BLOCK, id=loser) == Refusal("LIMIT_REACHED", "userId")
    # One who is blocked already is no other.
    await block(api, alice, winner)
    assert (await api.stored_documents())["blocks"][alice] == before
    await unblock(api, alice, winner)
    await block(api, alice, loser)


async def test_blocks_at_once_on_two_servers_are_all_kept(api: Api, other_api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(12)))
    await gather_all(*(block((api, other_api)[n % 2], alice, other) for n, other in enumerate(others)))
    assert set(await blocked(api, alice)) == set(others)
    for process in (api, other_api):
        assert (await process.services.app.store.blocks.read(UserId(alice))).users == set(others)
    await gather_all(*(unblock((api, other_api)[n % 2], alice, other) for n, other in enumerate(others[:6])))
    for process in (api, other_api):
        assert (await process.services.app.store.blocks.read(UserId(alice))).users == set(others[6:])


async def test_search_does_not_find_those_who_are_blocked(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(alice, bob)
    await api.send(alice, carol)
    await block(api, alice, bob)

    async def found(viewer: str, text: str) -> set[str]:
        return {edge["node"]["id"] for edge in (await api.data(viewer, SEARCH, text=text))["searchUsers"]["edges"]}

    assert await found(alice, "") == {carol}
    assert await found(alice, bob) == set()
    assert await found(bob, "") == await found(bob, alice) == {alice}
    await unblock(api, alice, bob)
    assert await found(alice, "") == {bob, carol}


async def test_nothing_is_written_to_the_audit_log(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    before = (await api.stored_documents()).get("audit", {})
    await block(api, alice, bob)
    await unblock(api, alice, bob)
    assert (await api.stored_documents()).get("audit", {}) == before


async def test_blocking_and_unblocking_are_limited(open_api: OpenApi) -> None:
    async with open_api("limited", group_changes_per_minute=4) as api:
        alice, bob = await api.create_users("alice", "bob")
        await block(api, alice, bob)
        await unblock(api, alice, bob)
        before = await api.stored_documents()
        for mutation in (BLOCK, UNBLOCK):
            assert (await api.expect_refusal(alice, mutation, id=bob)).code == "RATE_LIMITED"
        assert await api.stored_documents() == before


async def test_that_a_user_has_too_many_blockers_is_remembered(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocker_cache, "_MOST_KEPT", 1)
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    await block(api, alice, carol)
    await block(api, bob, carol)
    known, rows = api.services.app.blocker_cache, api.services.app.store.blocks.rows
    listed = list[str]()
    original = rows.list_blockers

    async def list_blockers(user: UserId, limit: int) -> Any:
        listed.append(user)
        return await original(user, limit)

    monkeypatch.setattr(rows, "list_blockers", list_blockers)
    is_remembered = False
    async with asyncio.timeout(TIMEOUT_SECONDS):
        # Frames of the blocks may still arrive, and each lets the list be read once more.
        while not is_remembered:
            listed.clear()
            assert await known.has_any(UserId(carol))
            assert (await known.find(UserId(carol), [UserId(alice), UserId(dave)])).keys() == {alice}
            is_remembered = not listed
    await unblock(api, alice, carol)
    assert (await known.find(UserId(carol), [UserId(alice), UserId(bob)])).keys() == {bob}
    assert listed
