"""Profiles: users by id, updateMe, and metadata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from resolvers.users.callers import CallerRole
from tests.api.client import Api, Json, Refusal, make_caller, private_id, wait_until

PROFILE = "id displayName avatarUrl isBot metadata"
USERS = f"query ($ids: [ID!]!) {{ users(ids: $ids) {{ {PROFILE} }} }}"
UPDATE_ME = f"""mutation ($name: String, $avatar: String, $metadata: JSON) {{
    updateMe(displayName: $name, avatarUrl: $avatar, metadata: $metadata) {{ {PROFILE} }} }}"""
UPSERT = f"mutation ($input: [UserInput!]!) {{ upsertUsers(input: $input) {{ {PROFILE} }} }}"
SERVICE = make_caller("service", CallerRole.SERVICE)


async def find_users(api: Api, viewer: str, *ids: str) -> list[Json | None]:
    found: list[Json | None] = (await api.data(viewer, USERS, ids=list(ids)))["users"]
    return found


async def update_me(api: Api, user: str, **fields: Any) -> Json:
    updated: Json = (await api.data(user, UPDATE_ME, **fields))["updateMe"]
    return updated


async def fewest_reads(api: Api, request: Callable[[], Awaitable[object]]) -> int:
    """Return the reads that a request waits for. News of earlier changes may add to a single run."""
    mongo, reads = api.services.app.store.mongo, []
    for _ in range(6):
        before = mongo.trips
        await request()
        reads.append(mongo.trips - before)
    return min(reads)


async def test_users_are_returned_in_the_order_asked_for(api: Api) -> None:
    one, two = await api.create_users("one", "two")
    found = await find_users(api, one, two, "unknown", one, "white space", two)
    assert [user and user["id"] for user in found] == [two, None, one, None, two]
    assert await find_users(api, one) == []


async def test_two_hundred_users_are_read_at_once(api: Api) -> None:
    (viewer,) = await api.create_users("viewer")
    users = await api.create_many_users(f"many.{viewer}", 200)
    store = api.services.app.store

    async def read_all() -> None:
        store.users.invalidate(users)
        assert [user and user["id"] for user in await find_users(api, viewer, *users)] == users

    assert await fewest_reads(api, read_all) == 1
    for ids in ([*users, users[0]], ["?"] * 201):
        assert await api.expect_refusal(viewer, USERS, ids=ids) == Refusal("INVALID_INPUT", "ids")


async def test_update_me_changes_only_what_is_given(api: Api) -> None:
    (user,) = await api.create_users("user")
    expected: Json = {"id": user, "displayName": user, "avatarUrl": None, "isBot": False, "metadata": None}
    steps: list[tuple[Json, Json]] = [
        ({"metadata": {"team": ["a", None, 1.5]}}, {"metadata": {"team": ["a", None, 1.5]}}),
        ({"name": "Zoë 🤖"}, {"displayName": "Zoë 🤖"}),
        ({"avatar": "https://example.org/a.png"}, {"avatarUrl": "https://example.org/a.png"}),
        ({"name": None, "avatar": None, "metadata": None}, {}),
        ({"name": "A\u202eb"}, {"displayName": "Ab"}),
        ({"name": "$n", "avatar": ""}, {"displayName": "$n", "avatarUrl": None}),
        ({"metadata": {}}, {"metadata": {}}),
        ({"metadata": 0}, {"metadata": 0}),
        ({"metadata": {"$set": {"a.b": "\x00"}}}, {"metadata": {"$set": {"a.b": "\x00"}}}),
    ]
    for fields, change in steps:
        expected |= change
        assert await update_me(api, user, **fields) == expected
        assert await find_users(api, user, user) == [expected]
        api.services.app.store.users.invalidate([user])  # type: ignore[list-item]
        assert await find_users(api, user, user) == [expected]


async def test_a_change_is_shown_by_every_server(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    assert (await other_api.sessions(bob))[0]["conversation"]["title"] == alice
    await update_me(api, alice, name="Alice", metadata=[1])
    assert (await api.history(bob, private_id(alice, bob)))[0]["sender"]["displayName"] == "Alice"

    async def is_shown() -> bool:
        (user,) = await find_users(other_api, bob, alice)
        return user is not None and (user["displayName"], user["metadata"]) == ("Alice", [1])

    await wait_until(is_shown)
    assert (await other_api.sessions(bob))[0]["conversation"]["title"] == "Alice"


async def test_a_call_that_changes_nothing_is_not_announced(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    (user,) = await api.create_users("user")
    fields = {"name": "Same", "avatar": "https://example.org/a", "metadata": {"b": 1, "a": 2}}
    await update_me(api, user, **fields)
    announced: list[object] = []
    stored = await api.stored_hashes()

    async def announce(users: object) -> None:
        announced.append(users)

    monkeypatch.setattr(api.services.app.bus, "announce_users", announce)
    for same in ({}, fields, {"metadata": {"a": 2, "b": 1}}, {"name": "Same"}):
        await update_me(api, user, **same)
    assert announced == []
    assert await api.stored_hashes() == stored
    await update_me(api, user, avatar="")
    assert announced == [[user]]


async def test_the_token_does_not_replace_an_updated_profile(api: Api) -> None:
    (mark,) = await api.create_users("mark")
    user = make_caller(f"new.{mark}", name="By token")
    assert (await api.data(user, UPDATE_ME, name="By me"))["updateMe"]["displayName"] == "By me"
    assert (await api.data(user, "{ me { displayName } }"))["me"]["displayName"] == "By me"


async def test_services_replace_metadata_with_the_rest_of_the_profile(api: Api) -> None:
    (user,) = await api.create_users("user")
    await update_me(api, user, name="Mine", metadata="mine")
    given = {"id": user, "displayName": "Theirs", "metadata": {"theirs": True}}
    (upserted,) = (await api.data(SERVICE, UPSERT, input=[given]))["upsertUsers"]
    assert upserted == given | {"avatarUrl": None, "isBot": False}
    assert await find_users(api, user, user) == [upserted]
    (upserted,) = (await api.data(SERVICE, UPSERT, input=[{"id": user, "displayName": "Theirs"}]))["upsertUsers"]
    assert upserted["metadata"] is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "displayName"),
        ({"name": "\u200b "}, "displayName"),
        ({"name": "x" * 101}, "displayName"),
        ({"name": "a\nb"}, "displayName"),
        ({"avatar": "javascript:alert(1)"}, "avatarUrl"),
        ({"avatar": " "}, "avatarUrl"),
        ({"metadata": "x" * 8_191}, "metadata"),
        ({"metadata": [[[[[[[[[0]]]]]]]]]}, "metadata"),
        ({"metadata": "\ud800"}, "metadata"),
    ],
    ids=ascii,
)
async def test_invalid_profiles_are_refused_and_change_nothing(api: Api, fields: Json, field: str) -> None:
    (user,) = await api.create_users("user")
    await api.data(SERVICE, "{ me { id } }")
    stored = await api.stored_hashes()
    # The other fields are valid.
    valid = {"name": "Valid", "avatar": "https://example.org/a", "metadata": 1}
    assert await api.expect_refusal(user, UPDATE_ME, **(valid | fields)) == Refusal("INVALID_INPUT", field)
    if field == "metadata":
        users = [{"id": "good", "displayName": "Good"}, {"id": user, "displayName": "Bad"} | fields]
        assert await api.expect_refusal(SERVICE, UPSERT, input=users) == Refusal("INVALID_INPUT", field)
    assert await api.stored_hashes() == stored


async def test_metadata_may_have_8_kib_and_8_levels(api: Api) -> None:
    (user,) = await api.create_users("user")
    for metadata in ("x" * 8_190, [[[[[[[[0]]]]]]]]):
        assert (await update_me(api, user, metadata=metadata))["metadata"] == metadata


async def test_senders_without_a_profile_are_read_once(api: Api) -> None:
    viewer, sender = await api.create_users("viewer", "sender")
    await api.send(sender, viewer)
    api.database.users.delete_one({"_id": sender})
    api.services.app.store.users.invalidate([sender])  # type: ignore[list-item]

    async def sender_name() -> str:
        name: str = (await api.history(viewer, private_id(viewer, sender)))[0]["sender"]["displayName"]
        return name

    assert await sender_name() == sender
    reads = await fewest_reads(api, sender_name)
    assert await sender_name() == sender
    await api.upsert_users({"id": sender, "displayName": "Is here"})
    assert await sender_name() == "Is here"
    # As many reads as with a profile: that of the messages.
    assert reads == await fewest_reads(api, sender_name) == 1


async def test_a_user_created_by_another_server_replaces_the_placeholder(api: Api, other_api: Api) -> None:
    viewer, sender = await api.create_users("viewer", "sender")
    await api.send(sender, viewer)
    api.database.users.delete_one({"_id": sender})
    api.services.app.store.users.invalidate(None)
    other_api.services.app.store.users.invalidate(None)

    async def sender_name() -> str:
        name: str = (await api.history(viewer, private_id(viewer, sender)))[0]["sender"]["displayName"]
        return name

    assert await sender_name() == sender
    await other_api.data(make_caller(sender, name="Is here"), "{ me { id } }")

    async def is_shown() -> bool:
        return await sender_name() == "Is here"

    await wait_until(is_shown)
