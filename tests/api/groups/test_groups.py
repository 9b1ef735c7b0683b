"""Making groups, and who is in them."""

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
MEMBERS = """query ($id: ID!, $first: Int = 50, $after: String) { group(id: $id) { members(first: $first, after: $after) {
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor } edges { cursor node { role user { id } } } } } }"""


@pytest.fixture(scope="module")
async def process(open_api: OpenApi) -> AsyncIterator[Api]:
    """Groups of at most six here, so that filling one up is quick."""
    async with open_api("small", max_group_members=6) as api:
        yield api


async def group(api: Api, user: str, id: str) -> Json | None:
    shown: Json | None = (await api.data(user, GROUP, id=id))["group"]
    return shown


async def test_a_group_is_as_its_creator_asked_and_everybody_is_in_it_at_once(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    listeners = [await api.listen(user, LIVE_SESSIONS) for user in (alice, bob, carol)]
    made = await api.create_group(
        alice, carol, bob, name="Kaffee ☕", avatarUrl="https://example.org/a.png", historyVisibility="FULL"
    )
    assert made.startswith("g_")
    for user, role in ((alice, "OWNER"), (bob, "MEMBER"), (carol, "MEMBER")):
        shown = await group(api, user, made)
        assert shown is not None
        members = [(edge["node"]["user"]["id"], edge["node"]["role"]) for edge in shown.pop("members")["edges"]]
        assert members == [(alice, "OWNER"), (bob, "MEMBER"), (carol, "MEMBER")]
        assert shown.pop("createdAt").endswith("Z")
        assert shown == {
            "id": made,
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


async def test_making_a_group_writes_no_message(api: Api) -> None:
    made = await api.create_group(*(people := await api.create_users("alice", "bob", "carol")))
    assert await api.history(people[1], made) == []
    assert (await api.send(people[0], made))["message"]["seq"] == 1


async def test_history_is_since_joining_unless_asked_otherwise(api: Api) -> None:
    people = await api.create_users("alice", "bob", "carol")
    for more in ({}, {"historyVisibility": "SINCE_JOIN"}, {"historyVisibility": None}):
        shown = await group(api, people[0], await api.create_group(*people, **more))
        assert shown is not None
        assert (shown["historyVisibility"], shown["avatarUrl"]) == ("SINCE_JOIN", None)


async def test_people_are_counted_once_each_the_creator_too(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    made = {"name": "x", "memberIds": [bob, carol, alice, bob, carol]}
    assert (await api.data(alice, CREATE_GROUP, input=made))["createGroup"]["memberCount"] == 3


@pytest.mark.parametrize("members", [[], ["bob"], ["alice"], ["alice", "bob"], ["bob", "bob", "alice"]], ids=str)
async def test_fewer_than_three_people_are_no_group(api: Api, members: list[str]) -> None:
    alice, bob = await api.create_users("alice", "bob")
    stored = await api.stored_documents()
    ids = [{"alice": alice, "bob": bob}[name] for name in members]
    refusal = await api.expect_refusal(alice, CREATE_GROUP, input={"name": "x", "memberIds": ids})
    assert refusal == Refusal("GROUP_TOO_SMALL", "memberIds")
    assert await api.stored_documents() == stored


async def test_more_people_than_the_setting_allows_are_no_group(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(6)))
    stored = await api.stored_documents()
    refusal = await api.expect_refusal(alice, CREATE_GROUP, input={"name": "x", "memberIds": others})
    assert refusal == Refusal("GROUP_FULL", "memberIds")
    assert await api.stored_documents() == stored
    assert await api.create_group(alice, *others[:5])


async def test_members_who_do_not_exist_are_not_found(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    stored = await api.stored_documents()
    for unknown in ("nobody", "not an id", "", bob.upper(), "g_1", "\ud800"):
        for key in (None, "key"):
            made = {"name": "x", "memberIds": [bob, unknown, carol], "idempotencyKey": key}
            refusal = await api.expect_refusal(alice, CREATE_GROUP, input=made)
            assert refusal == Refusal("NOT_FOUND", "memberIds"), ascii(unknown)
    assert await api.stored_documents() == stored


@pytest.mark.parametrize("name", ["", " ", "\u3000", "x" * 101, "🙂" * 101, "a\x00", "a\nb", "\ud800"], ids=ascii)
async def test_a_name_has_1_to_100_characters_that_show(api: Api, name: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    stored = await api.stored_documents()
    refusal = await api.expect_refusal(alice, CREATE_GROUP, input={"name": name, "memberIds": [bob, carol]})
    assert refusal == Refusal("INVALID_INPUT", "name")
    assert await api.stored_documents() == stored


@pytest.mark.parametrize("name", ["x", "x" * 100, "🙂" * 100, " x ", "<b>&amp;"], ids=ascii)
async def test_every_name_within_that_is_kept_as_it_is(api: Api, name: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    made = await api.create_group(alice, bob, carol, name=name)
    assert (await api.sessions(bob))[0]["conversation"]["title"] == name
    assert (await group(api, carol, made) or {})["name"] == name


@pytest.mark.parametrize("field", ["avatarUrl", "idempotencyKey"])
async def test_other_fields_are_checked_too(api: Api, field: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    stored = await api.stored_documents()
    for wrong in {"avatarUrl": ("", "x", "javascript:x", "ftp://x/"), "idempotencyKey": ("", "k" * 129, "\ud800")}[
        field
    ]:
        made = {"name": "x", "memberIds": [bob, carol], field: wrong}
        assert await api.expect_refusal(alice, CREATE_GROUP, input=made) == Refusal("INVALID_INPUT", field)
    assert await api.stored_documents() == stored


# --- the same key


async def test_the_same_key_answers_the_first_group_and_makes_no_other(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    first = await api.create_group(alice, bob, carol, idempotencyKey="k")
    await api.send(bob, first)
    stored = await api.stored_documents()
    assert await api.create_group(alice, carol, bob, bob, idempotencyKey="k") == first
    assert await api.stored_documents() == stored
    assert await api.create_group(bob, alice, carol, idempotencyKey="k") != first


@pytest.mark.parametrize("change", ["name", "members", "avatar", "visibility"])
async def test_the_same_key_answers_the_first_group_whatever_is_asked_for(api: Api, change: str) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    made: Json = {"name": "x", "memberIds": [bob, carol], "idempotencyKey": "k"}
    first = await api.data(alice, CREATE_GROUP, input=made)
    changed: dict[str, Json] = {
        "name": {"name": "y"},
        "members": {"memberIds": [bob, carol, dave]},
        "avatar": {"avatarUrl": "https://example.org/a.png"},
        "visibility": {"historyVisibility": "FULL"},
    }
    stored = await api.stored_documents()
    assert await api.data(alice, CREATE_GROUP, input=made | changed[change]) == first
    assert await api.stored_documents() == stored


async def test_twins_make_one_group(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    made = await gather_all(
        *(process.create_group(alice, bob, carol, idempotencyKey="k") for process in (api, other_api) * 3)
    )
    assert len(set(made)) == 1
    assert len(await api.sessions(bob)) == 1


@pytest.fixture(scope="module")
async def other_process(process: Api, open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("small", max_group_members=6) as api:
        yield api


async def test_unequal_twins_make_one_group_too(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    made = {"memberIds": [bob, carol], "idempotencyKey": "k"}
    outcomes = await gather_all(*(api.run(alice, CREATE_GROUP, input=made | {"name": f"{i}"}) for i in range(5)))
    assert len({outcome["data"]["createGroup"]["id"] for outcome in outcomes}) == 1
    assert len(await api.sessions(bob)) == 1


async def test_a_key_whose_first_request_was_refused_is_free(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    wrong = {"name": "x", "memberIds": [bob, "nobody"], "idempotencyKey": "k"}
    assert (await api.expect_refusal(alice, CREATE_GROUP, input=wrong)).code == "NOT_FOUND"
    assert await api.create_group(alice, bob, carol, idempotencyKey="k")


async def test_a_key_of_a_message_is_none_of_a_group(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(alice, bob, idempotencyKey="k")
    made = await api.create_group(alice, bob, carol, idempotencyKey="k")
    assert (await api.send(alice, made, idempotencyKey="l"))["replayed"] is False


# --- lists


@pytest.mark.parametrize("page", [1, 4, 5])
async def test_pages_of_my_groups_of_any_size_make_up_the_list(
    api: Api, five: tuple[str, list[str]], page: int
) -> None:
    alice, expected = five
    found: list[str] = []
    after = None
    while True:
        listed = (await api.data(alice, MY_GROUPS, first=page, after=after))["myGroups"]
        found += [edge["node"]["id"] for edge in listed["edges"]]
        assert listed["pageInfo"]["hasPreviousPage"] is (after is not None)
        assert listed["pageInfo"]["endCursor"] == listed["edges"][-1]["cursor"]
        after = listed["pageInfo"]["endCursor"]
        if not listed["pageInfo"]["hasNextPage"]:
            break
    assert sorted(found) == sorted(expected)
    assert len(set(found)) == 5


@pytest.fixture(scope="module")
async def five(process: Api) -> tuple[str, list[str]]:
    alice, bob, carol = await process.create_users("alice", "bob", "carol")
    made = [await process.create_group(alice, bob, carol, name=f"Group {number}") for number in range(5)]
    await process.send(alice, bob)
    return alice, made


@pytest.mark.parametrize("page", [1, 4, 6])
async def test_pages_of_members_of_any_size_make_up_the_membership(api: Api, page: int) -> None:
    people = await api.create_users(*"abcdef")
    made = await api.create_group(*people)
    found: list[str] = []
    after = None
    while True:
        listed = (await api.data(people[3], MEMBERS, id=made, first=page, after=after))["group"]["members"]
        found += [edge["node"]["user"]["id"] for edge in listed["edges"]]
        after = listed["pageInfo"]["endCursor"]
        if not listed["pageInfo"]["hasNextPage"]:
            break
    assert found == people


async def test_somebody_in_no_group_has_an_empty_list(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    listed = (await api.data(alice, MY_GROUPS))["myGroups"]
    assert listed["edges"] == []
    assert listed["pageInfo"]["endCursor"] is None


async def test_a_group_that_is_stored_and_was_not_shown_to_its_members_is_shown_once_redis_answers(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    assert await api.all_sessions(bob) == {}
    cache = api.services.app.store.cache
    run = cache.run

    async def fail(calls: Sequence[Call]) -> list[Any]:
        if any("join" in call.args for call in calls):
            raise Unreachable("the connection was lost")
        return await run(calls)

    with monkeypatch.context() as patch:
        patch.setattr(cache, "run", fail)
        wanted = {"name": "Group", "memberIds": [bob, carol]}
        assert (await api.expect_refusal(alice, CREATE_GROUP, input=wanted)).code == "UNAVAILABLE"

    async def is_shown() -> bool:
        return len(await api.all_sessions(bob)) == len(await api.all_sessions(alice)) == 1

    # The process looks after Redis by itself, too.
    await api.services.housekeeper.check_redis()
    await wait_until(is_shown)
