"""Users: how they are created, shown, and changed by services and administrators."""

from __future__ import annotations

import pytest

from resolvers.users.callers import CallerRole
from tests.api.client import UPSERT_USERS, Api, Json, Refusal, gather_all, make_caller, private_id, wait_until
from tests.user_ids import NOT_USER_IDS

USER = "query ($id: ID!) { user(id: $id) { id displayName avatarUrl isBot } node(id: $id) { __typename id } }"
ME = "{ me { id displayName avatarUrl isBot } }"


async def find_user(api: Api, user: str) -> Json | None:
    (viewer,) = await api.create_users("asking")
    user_shown: Json | None = (await api.data(viewer, USER, id=user))["user"]
    return user_shown


async def test_the_first_request_creates_the_user(api: Api) -> None:
    (mark,) = await api.create_users("mark")
    newcomer = f"new.{mark}"
    assert await find_user(api, newcomer) is None
    assert (await api.data(newcomer, ME))["me"] == {
        "id": newcomer,
        "displayName": newcomer,
        "avatarUrl": None,
        "isBot": False,
    }
    assert (await api.data(mark, USER, id=newcomer))["node"] == {"__typename": "User", "id": newcomer}


async def test_the_token_sets_only_a_missing_display_name(api: Api) -> None:
    (user,) = await api.create_users("user")
    assert (await api.data(make_caller(user, name="First"), ME))["me"]["displayName"] == "First"
    assert (await api.data(make_caller(user, name="Second"), ME))["me"]["displayName"] == "First"
    assert (await api.data(user, ME))["me"]["displayName"] == "First"


async def test_concurrent_first_requests_create_one_user(api: Api, other_api: Api) -> None:
    (mark,) = await api.create_users("mark")
    user = make_caller(f"new.{mark}", name="New")
    answers = await gather_all(*(process.data(user, ME) for process in (api, other_api) * 8))
    assert {answer["me"]["displayName"] for answer in answers} == {"New"}


@pytest.mark.parametrize("role", [CallerRole.SERVICE, CallerRole.ADMIN])
async def test_services_and_admins_set_all_fields_of_users(api: Api, role: CallerRole) -> None:
    first, second = await api.create_users("one", "two")
    created = f"made.{first}"
    inputs: list[Json] = [
        {"id": created, "displayName": "Mäde 🤖", "avatarUrl": "https://example.org/a.png", "isBot": True},
        {"id": first, "displayName": "x" * 100},
    ]
    answer = (await api.data(make_caller("boss", role), UPSERT_USERS, input=inputs))["upsertUsers"]
    assert answer == [inputs[0], inputs[1] | {"avatarUrl": None, "isBot": False}]
    for user in answer:
        assert await find_user(api, user["id"]) == user
    # A user created by a service can receive messages before their first request.
    assert (await api.send(second, created))["session"]["conversation"]["title"] == "Mäde 🤖"


async def test_a_changed_name_is_shown_by_every_server(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    assert (await other_api.sessions(bob))[0]["conversation"]["title"] == alice
    await api.upsert_users({"id": alice, "displayName": "Alice"})
    for process in (api, other_api):

        async def is_shown(process: Api = process) -> bool:
            (session,) = await process.sessions(bob)
            title: str = session["conversation"]["title"]
            return title == "Alice"

        await wait_until(is_shown)
        assert (await process.history(bob, private_id(alice, bob)))[0]["sender"]["displayName"] == "Alice"


async def test_upserting_again_replaces_all_fields(api: Api) -> None:
    (user,) = await api.create_users("user")
    await api.upsert_users({"id": user, "displayName": "One", "avatarUrl": "https://example.org/1", "isBot": True})
    await api.upsert_users({"id": user, "displayName": "Two"})
    assert await find_user(api, user) == {"id": user, "displayName": "Two", "avatarUrl": None, "isBot": False}


async def test_upserting_no_users_is_accepted(api: Api) -> None:
    assert await api.upsert_users() == []


async def test_a_token_does_not_replace_a_name_set_by_a_service(api: Api) -> None:
    (mark,) = await api.create_users("mark")
    user = f"made.{mark}"
    await api.upsert_users({"id": user, "displayName": "By a service"})
    assert (await api.data(make_caller(user, name="By a token"), ME))["me"]["displayName"] == "By a service"


async def test_ordinary_callers_cannot_upsert_users(api: Api) -> None:
    (user,) = await api.create_users("user")
    stored = await api.stored_hashes()
    refusal = await api.expect_refusal(user, UPSERT_USERS, input=[{"id": user, "displayName": "Boss"}])
    assert refusal == Refusal("FORBIDDEN")
    assert await api.expect_refusal(user, UPSERT_USERS, input=[]) == Refusal("FORBIDDEN")
    assert await api.stored_hashes() == stored
    assert (await api.data(user, ME))["me"]["displayName"] == user


@pytest.mark.parametrize(
    ("change", "field"),
    [
        *(({"id": text}, "id") for text in NOT_USER_IDS),
        ({"displayName": ""}, "displayName"),
        ({"displayName": " \u3000"}, "displayName"),
        ({"displayName": "x" * 101}, "displayName"),
        ({"displayName": "a\x00b"}, "displayName"),
        ({"displayName": "a\nb"}, "displayName"),
        ({"displayName": "a\ud800"}, "displayName"),
        ({"avatarUrl": ""}, "avatarUrl"),
        ({"avatarUrl": "javascript:alert(1)"}, "avatarUrl"),
        ({"avatarUrl": "https://example.org/" + "x" * 2_048}, "avatarUrl"),
        ({"avatarUrl": "https://example.org/\n"}, "avatarUrl"),
        ({"avatarUrl": "https://example.org/\ud800"}, "avatarUrl"),
    ],
    ids=ascii,
)
async def test_one_invalid_user_refuses_the_whole_call(api: Api, change: Json, field: str) -> None:
    first, second, third = await api.create_users("one", "two", "three")
    users = [{"id": user, "displayName": "Changed"} for user in (first, second, third)]
    users[1] |= change
    service = make_caller("service", CallerRole.SERVICE)
    await api.run(service, ME)
    stored = await api.stored_hashes()
    assert await api.expect_refusal(service, UPSERT_USERS, input=users) == Refusal("INVALID_INPUT", field)
    assert await api.stored_hashes() == stored
    assert (await find_user(api, first) or {})["displayName"] == first


async def test_a_user_given_twice_in_one_call_is_refused(api: Api) -> None:
    (user,) = await api.create_users("user")
    twice = [{"id": user, "displayName": "One"}, {"id": user, "displayName": "Two"}]
    refusal = await api.expect_refusal(make_caller("service", CallerRole.SERVICE), UPSERT_USERS, input=twice)
    assert refusal.code == "INVALID_INPUT"
    assert (await find_user(api, user) or {})["displayName"] == user


@pytest.mark.parametrize(
    "user",
    [
        "A.b@c-d",
        "x" * 64,
        *(pytest.param(user, marks=pytest.mark.long) for user in ("a", "0", "user@example.org", "UPPER")),
    ],
)
async def test_every_id_that_the_contract_allows_can_be_used(api: Api, user: str) -> None:
    (other,) = await api.create_users("other")
    assert (await api.data(user, ME))["me"]["id"] == user
    conversation = (await api.send(user, other))["message"]["conversationId"]
    assert conversation == private_id(user, other)
    await api.send(other, conversation)
    session = await api.mark_read(user, conversation)
    assert session["id"] == f"s_{user}_{conversation}"
    node = await api.data(user, "query ($id: ID!) { node(id: $id) { id } }", id=session["id"])
    assert node == {"node": {"id": session["id"]}}


async def test_users_with_similar_ids_are_separate(api: Api) -> None:
    (mark,) = await api.create_users("mark")
    similar_ids = [mark, f"{mark}-", f"{mark}.", f"{mark}@", f"{mark}0", f"{mark[:-1]}", mark.upper()]
    (sender,) = await api.create_users("sender")
    for user in similar_ids:
        await api.data(user, ME)
    for user in similar_ids:
        await api.send(sender, user, f"for {user}")
    for user in similar_ids:
        (session,) = await api.sessions(user)
        assert session["lastMessage"]["content"] == f"for {user}"
    assert len(await api.sessions(sender)) == len(similar_ids)
