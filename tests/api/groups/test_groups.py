"""createGroup, and the lists of groups and members."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.redis.cache import Call
from tests.api.client import CREATE_GROUP, LIVE_SESSIONS, Api, Json, Refusal, gather_all, wait_until
from tests.api.conftest import OpenApi

GROUP = """query ($id: ID!) { group(id: $id) {
    id type title name avatarUrl memberCount viewerRole historyVisibility status createdAt
    owner { id } visibleRanges { fromSeq toSeq } lastMessage { seq } session { unreadCount status }
    members { edges { node { role joinedAt user { id } } } } } }"""
MY_GROUPS = """query ($first: Int = 50, $after: String) { myGroups(first: $first, after: $after) {
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor } edges { cursor node { id name } } } }"""
MEMBERS = """query ($id: ID!, $first: Int = 50, $after: String) { group(id: $id) { members(first: $first,
        after: $after) {
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor } edges { cursor node { role user { id } } } } } }"""


@pytest.fixture(scope="module")
async def process(open_api: OpenApi) -> AsyncIterator[Api]:
    """A process whose groups have at most six members."""
    async with open_api("small", max_group_members=6) as api:
        yield api


async def read_group(api: Api, user: str, id: str) -> Json | None:
    returned_group: Json | None = (await api.data(user, GROUP, id=id))["group"]
    return returned_group


async def test_a_new_group_has_the_given_fields_and_members(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    listeners = [await api.listen(user, LIVE_SESSIONS) for user in (alice, bob, carol)]
    new_group = await api.create_group(
        alice, carol, bob, name="Kaffee ☕", avatarUrl="https://example.org/a.png", historyVisibility="FULL"
    )
    assert new_group.startswith("g_")
    for user, role in ((alice, "OWNER"), (bob, "MEMBER"), (carol, "MEMBER")):
        returned_group = await read_group(api, user, new_group)
        assert returned_group is not None
        members = [
            (edge["node"]["user"]["id"], edge["node"]["role"]) for edge in returned_group.pop("members")["edges"]
        ]
        assert members == [(alice, "OWNER"), (bob, "MEMBER"), (carol, "MEMBER")]
        assert returned_group.pop("createdAt").endswith("Z")
        assert returned_group == {
            "id": new_group,
            "type": "GROUP",
            "title": "Kaffee ☕",
            "name": "Kaffee ☕",
            "avatarUrl": "https://example.org/a.png",
            "memberCount": 3,
            "viewerRole": role,
            "historyVisibility": "FULL",
            "status": "ACTIVE",
            "owner": {"id": alice},
            "visibleRanges": [{"fromSeq": 1, "toSeq": None}],
            "lastMessage": None,
            "session": {"unreadCount": 0, "status": "ACTIVE"},
        }
    for listener, user in zip(listeners, (alice, bob, carol), strict=True):
        event = await listener.next()
        assert (event["reason"], event["totalUnread"], event["reset"], event["hasMore"]) == (
            "MEMBERSHIP",
            0,
            False,
            False,
        )
        assert event["sessions"] == await api.sessions(user)
        await listener.expect_no_event(0.02)


async def test_creating_a_group_writes_no_message(api: Api) -> None:
    new_group = await api.create_group(*(users := await api.create_users("alice", "bob", "carol")))
    assert await api.history(users[1], new_group) == []
    assert (await api.send(users[0], new_group))["message"]["seq"] == 1


async def test_the_default_history_visibility_is_since_join(api: Api) -> None:
    users = await api.create_users("alice", "bob", "carol")
    for fields in ({}, {"historyVisibility": "SINCE_JOIN"}, {"historyVisibility": None}):
        returned_group = await read_group(api, users[0], await api.create_group(*users, **fields))
        assert returned_group is not None
        assert (returned_group["historyVisibility"], returned_group["avatarUrl"]) == ("SINCE_JOIN", None)


async def test_repeated_members_and_the_creator_count_once(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    new_group = {"name": "x", "memberIds": [bob, carol, alice, bob, carol]}
    assert (await api.data(alice, CREATE_GROUP, input=new_group))["createGroup"]["memberCount"] == 3


@pytest.mark.parametrize("members", [[], ["bob"], ["alice"], ["alice", "bob"], ["bob", "bob", "alice"]], ids=str)
async def test_a_group_needs_at_least_three_members(api: Api, members: list[str]) -> None:
    alice, bob = await api.create_users("alice", "bob")
    stored = await api.stored_hashes()
    ids = [{"alice": alice, "bob": bob}[name] for name in members]
    refusal = await api.expect_refusal(alice, CREATE_GROUP, input={"name": "x", "memberIds": ids})
    assert refusal == Refusal("GROUP_TOO_SMALL", "memberIds")
    assert await api.stored_hashes() == stored


async def test_a_group_has_at_most_the_configured_number_of_members(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(6)))
    stored = await api.stored_hashes()
    refusal = await api.expect_refusal(alice, CREATE_GROUP, input={"name": "x", "memberIds": others})
    assert refusal == Refusal("GROUP_FULL", "memberIds")
    assert await api.stored_hashes() == stored
    assert await api.create_group(alice, *others[:5])


async def test_unknown_members_are_not_found(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    stored = await api.stored_hashes()
    for unknown in ("nobody", "not an id", "", bob.upper(), "g_1", "\ud800"):
        for key in (None, "key"):
            new_group = {"name": "x", "memberIds": [bob, unknown, carol], "idempotencyKey": key}
            refusal = await api.expect_refusal(alice, CREATE_GROUP, input=new_group)
            assert refusal == Refusal("NOT_FOUND", "memberIds"), ascii(unknown)
    assert await api.stored_hashes() == stored


@pytest.mark.parametrize("name", ["", " ", "\u3000", "x" * 101, "🙂" * 101, "a\x00", "a\nb", "\ud800"], ids=ascii)
async def test_an_invalid_name_is_refused(api: Api, name: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    stored = await api.stored_hashes()
    refusal = await api.expect_refusal(alice, CREATE_GROUP, input={"name": name, "memberIds": [bob, carol]})
    assert refusal == Refusal("INVALID_INPUT", "name")
    assert await api.stored_hashes() == stored


@pytest.mark.parametrize("name", ["x", "x" * 100, "🙂" * 100, " x ", "<b>&amp;"], ids=ascii)
async def test_a_valid_name_is_kept_unchanged(api: Api, name: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    new_group = await api.create_group(alice, bob, carol, name=name)
    assert (await api.sessions(bob))[0]["conversation"]["title"] == name
    assert (await read_group(api, carol, new_group) or {})["name"] == name


@pytest.mark.parametrize("field", ["avatarUrl", "idempotencyKey"])
async def test_invalid_avatar_urls_and_keys_are_refused(api: Api, field: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    stored = await api.stored_hashes()
    for invalid in {"avatarUrl": ("", "x", "javascript:x", "ftp://x/"), "idempotencyKey": ("", "k" * 129, "\ud800")}[
        field
    ]:
        new_group = {"name": "x", "memberIds": [bob, carol], field: invalid}
        assert await api.expect_refusal(alice, CREATE_GROUP, input=new_group) == Refusal("INVALID_INPUT", field)
    assert await api.stored_hashes() == stored


async def test_the_same_key_returns_the_first_group(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    first = await api.create_group(alice, bob, carol, idempotencyKey="k")
    await api.send(bob, first)
    stored = await api.stored_hashes()
    assert await api.create_group(alice, carol, bob, bob, idempotencyKey="k") == first
    assert await api.stored_hashes() == stored
    assert await api.create_group(bob, alice, carol, idempotencyKey="k") != first


@pytest.mark.parametrize("change", ["name", "members", "avatar", "visibility"])
async def test_the_same_key_with_other_fields_returns_the_first_group(api: Api, change: str) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    new_group: Json = {"name": "x", "memberIds": [bob, carol], "idempotencyKey": "k"}
    first = await api.data(alice, CREATE_GROUP, input=new_group)
    changed_fields: dict[str, Json] = {
        "name": {"name": "y"},
        "members": {"memberIds": [bob, carol, dave]},
        "avatar": {"avatarUrl": "https://example.org/a.png"},
        "visibility": {"historyVisibility": "FULL"},
    }
    stored = await api.stored_hashes()
    assert await api.data(alice, CREATE_GROUP, input=new_group | changed_fields[change]) == first
    assert await api.stored_hashes() == stored


async def test_concurrent_equal_requests_create_one_group(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    new_group = await gather_all(
        *(process.create_group(alice, bob, carol, idempotencyKey="k") for process in (api, other_api) * 3)
    )
    assert len(set(new_group)) == 1
    assert len(await api.sessions(bob)) == 1


@pytest.fixture(scope="module")
async def other_process(process: Api, open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("small", max_group_members=6) as api:
        yield api


async def test_concurrent_different_requests_create_one_group(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    new_group = {"memberIds": [bob, carol], "idempotencyKey": "k"}
    outcomes = await gather_all(*(api.run(alice, CREATE_GROUP, input=new_group | {"name": f"{i}"}) for i in range(5)))
    assert len({outcome["data"]["createGroup"]["id"] for outcome in outcomes}) == 1
    assert len(await api.sessions(bob)) == 1


async def test_a_refused_request_leaves_its_key_free(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    invalid = {"name": "x", "memberIds": [bob, "nobody"], "idempotencyKey": "k"}
    assert (await api.expect_refusal(alice, CREATE_GROUP, input=invalid)).code == "NOT_FOUND"
    assert await api.create_group(alice, bob, carol, idempotencyKey="k")


async def test_keys_of_messages_and_groups_are_independent(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(alice, bob, idempotencyKey="k")
    new_group = await api.create_group(alice, bob, carol, idempotencyKey="k")
    assert (await api.send(alice, new_group, idempotencyKey="l"))["replayed"] is False


@pytest.mark.parametrize("page", [1, 4, 5])
async def test_pages_of_my_groups_of_any_size_make_up_the_list(
    api: Api, five_groups: tuple[str, list[str]], page: int
) -> None:
    alice, expected = five_groups
    ids: list[str] = []
    after = None
    while True:
        page_data = (await api.data(alice, MY_GROUPS, first=page, after=after))["myGroups"]
        ids += [edge["node"]["id"] for edge in page_data["edges"]]
        assert page_data["pageInfo"]["hasPreviousPage"] is (after is not None)
        assert page_data["pageInfo"]["endCursor"] == page_data["edges"][-1]["cursor"]
        after = page_data["pageInfo"]["endCursor"]
        if not page_data["pageInfo"]["hasNextPage"]:
            break
    assert sorted(ids) == sorted(expected)
    assert len(set(ids)) == 5


@pytest.fixture(scope="module")
async def five_groups(process: Api) -> tuple[str, list[str]]:
    alice, bob, carol = await process.create_users("alice", "bob", "carol")
    new_group = [await process.create_group(alice, bob, carol, name=f"Group {number}") for number in range(5)]
    await process.send(alice, bob)
    return alice, new_group


@pytest.mark.parametrize("page", [1, 4, 6])
async def test_pages_of_members_of_any_size_list_all_members(api: Api, page: int) -> None:
    users = await api.create_users(*"abcdef")
    new_group = await api.create_group(*users)
    ids: list[str] = []
    after = None
    while True:
        page_data = (await api.data(users[3], MEMBERS, id=new_group, first=page, after=after))["group"]["members"]
        ids += [edge["node"]["user"]["id"] for edge in page_data["edges"]]
        after = page_data["pageInfo"]["endCursor"]
        if not page_data["pageInfo"]["hasNextPage"]:
            break
    assert ids == users


async def test_a_user_without_groups_has_an_empty_list(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    page_data = (await api.data(alice, MY_GROUPS))["myGroups"]
    assert page_data["edges"] == []
    assert page_data["pageInfo"]["endCursor"] is None


async def test_a_stored_group_appears_for_its_members_once_redis_answers(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    assert await api.all_sessions(bob) == {}
    cache = api.services.app.store.cache
    run = cache.run

    async def fail_joins(calls: Sequence[Call]) -> list[Any]:
        if any("join" in call.args for call in calls):
            raise Unreachable("the connection was lost")
        return await run(calls)

    with monkeypatch.context() as patch:
        patch.setattr(cache, "run", fail_joins)
        group_input = {"name": "Group", "memberIds": [bob, carol]}
        assert (await api.expect_refusal(alice, CREATE_GROUP, input=group_input)).code == "UNAVAILABLE"

    async def is_listed() -> bool:
        return len(await api.all_sessions(bob)) == len(await api.all_sessions(alice)) == 1

    # The process checks Redis by itself as well.
    await api.services.housekeeper.check_redis()
    await wait_until(is_listed)
