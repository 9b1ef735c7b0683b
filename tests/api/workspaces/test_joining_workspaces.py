"""Joining open workspaces, and being added by a service."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.users.callers import CallerRole
from store.base.errors import Unreachable
from store.base.ids import UserId
from store.redis.cache import Call
from tests.api.client import LIVE_SESSIONS, Api, Refusal, gather_all, make_caller
from tests.api.conftest import OpenApi
from tests.api.workspaces.calls import (
    ADD,
    JOIN,
    LEAVE,
    SERVICE,
    UPDATE,
    add_members,
    create_workspace,
    expect_right_counts,
    member_ids,
    my_workspaces,
    own_workspace,
    workspace_of,
)


async def test_anyone_joins_an_open_workspace(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace = await create_workspace(api, alice, isOpen=True, metadata={"secret": 1})
    seen = await own_workspace(api, bob, workspace)
    assert (seen["viewer"], seen["metadata"], seen["memberCount"]) == (None, None, 1)
    assert await member_ids(api, bob, workspace) == []
    joined = (await api.data(bob, JOIN, id=workspace))["joinWorkspace"]
    assert joined["memberCount"] == 2 and joined["metadata"] == {"secret": 1}
    assert joined["viewer"]["user"]["id"] == bob
    assert await member_ids(other_api, bob, workspace) == [alice, bob]
    assert await my_workspaces(other_api, bob) == [workspace]
    assert (await own_workspace(api, carol, workspace))["memberCount"] == 2
    expect_right_counts(api, workspace)


async def test_joining_again_changes_nothing(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice, isOpen=True)
    await api.data(bob, JOIN, id=workspace)
    before = await api.stored_hashes()
    assert (await api.data(bob, JOIN, id=workspace))["joinWorkspace"]["memberCount"] == 2
    assert (await api.data(alice, JOIN, id=workspace))["joinWorkspace"]["memberCount"] == 2
    assert await api.stored_hashes() == before


async def test_a_closed_workspace_cannot_be_joined_without_a_code(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice)
    before = await api.stored_hashes()
    for unknown in (workspace, "w_1", "w_x", "", f"c_{workspace[2:]}.1", bob):
        assert await api.expect_refusal(bob, JOIN, id=unknown) == Refusal("NOT_FOUND", "workspaceId")
    assert await api.expect_refusal(bob, JOIN) == Refusal("INVALID_INPUT", "workspaceId")
    assert await api.stored_hashes() == before


async def test_the_member_count_is_right_when_many_join_at_once(api: Api, other_api: Api) -> None:
    owner, *users = await api.create_users("owner", *(f"u{number}" for number in range(16)))
    workspace = await create_workspace(api, owner, isOpen=True)
    apis = [(api, user) for user in users] + [(other_api, user) for user in users]
    await gather_all(*(where.data(user, JOIN, id=workspace) for where, user in apis))
    assert (await own_workspace(api, owner, workspace))["memberCount"] == 17
    assert sorted(await member_ids(api, owner, workspace)) == sorted([owner, *users])
    expect_right_counts(api, workspace)


async def test_a_service_adds_users_once_each(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace = await create_workspace(api, alice)
    added = await add_members(api, workspace, bob, alice, carol, bob)
    assert (added["memberCount"], added["viewer"]) == (3, None)
    before = await api.stored_hashes()
    assert (await add_members(api, workspace, carol, bob))["memberCount"] == 3
    assert (await add_members(api, workspace))["memberCount"] == 3
    assert await api.stored_hashes() == before
    assert await my_workspaces(api, carol) == [workspace]
    expect_right_counts(api, workspace)


async def test_many_users_are_added_by_two_services_at_once(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice)
    users = await api.create_many_users("many", 130)
    await gather_all(add_members(api, workspace, *users), add_members(api, workspace, *users[::-1]))
    assert (await own_workspace(api, alice, workspace))["memberCount"] == 131
    expect_right_counts(api, workspace)


async def test_adding_is_refused_as_a_whole(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice, isOpen=True)
    admin = make_caller(alice, CallerRole.ADMIN)
    before = await api.stored_hashes()
    for user in (alice, bob):
        assert await api.expect_refusal(user, ADD, id=workspace, users=[bob]) == Refusal("FORBIDDEN")
    assert await api.expect_refusal(admin, ADD, id="w_1", users=[bob]) == Refusal("NOT_FOUND", "workspaceId")
    for unknown in ("nobody-here", "a b", ""):
        refusal = await api.expect_refusal(admin, ADD, id=workspace, users=[bob, unknown])
        assert refusal == Refusal("NOT_FOUND", "userIds")
    refusal = await api.expect_refusal(admin, ADD, id=workspace, users=[bob] * 1_001)
    assert refusal == Refusal("INVALID_INPUT", "userIds")
    assert await api.stored_hashes() == before


async def test_nobody_is_added_if_one_is_in_too_many_workspaces(open_api: OpenApi) -> None:
    async with open_api("full", max_workspaces_per_user=1) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        workspace = await create_workspace(api, alice)
        await create_workspace(api, carol)
        await api.create_users("service")
        before = await api.stored_documents()
        refusal = await api.expect_refusal(SERVICE, ADD, id=workspace, users=[alice, bob, carol])
        assert refusal == Refusal("LIMIT_REACHED", "userIds")
        assert {k: v for k, v in (await api.stored_documents()).items() if k != "users"} == {
            k: v for k, v in before.items() if k != "users"
        }
        assert (await add_members(api, workspace, alice, bob))["memberCount"] == 2


@pytest.mark.parametrize("code", ["", "x", "1-aaaaaaaaaaaaaaaa", "1-aaaaaaaaaaaaaaaa\n", "0" * 5_000])
async def test_an_unknown_code_is_unusable(api: Api, code: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice, isOpen=True)
    assert await api.expect_refusal(bob, JOIN, code=code) == Refusal("NOT_FOUND", "code")
    assert await api.expect_refusal(bob, JOIN, id=workspace, code=code) == Refusal("NOT_FOUND", "code")
    assert await workspace_of(api, bob, workspace) is not None and await my_workspaces(api, bob) == []


CREATE_CHANNEL = "mutation ($input: CreateChannelInput!) { createChannel(input: $input) { id } }"
SESSION = """query ($id: ID!) { session(conversationId: $id) { readSeq deliveredSeq writeSeq unreadCount status }
    channel(id: $id) { name } }"""


async def create_channel(api: Api, user: str, workspace: str, **fields: Any) -> str:
    wanted = {"workspaceId": workspace, "name": "general"} | fields
    channel: str = (await api.data(user, CREATE_CHANNEL, input=wanted))["createChannel"]["id"]
    return channel


def followed(api: Api, user: str) -> set[str]:
    """Return the channels that a user follows, by both kinds of rows."""
    rows = {row["_id"].partition(" ")[0] for row in api.database["members"].find() if row["_id"].endswith(f" {user}")}
    sessions = api.database["sessions"].find(
        {"_id": {"$gte": f"{user} c_", "$lt": f"{user} d"}, "fw": {"$exists": True}}
    )
    assert rows == {row["_id"].partition(" ")[2] for row in sessions}
    return rows


async def test_new_members_follow_the_default_channels_read_up_to_now(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace = await create_workspace(api, alice, isOpen=True)
    default = await create_channel(api, alice, workspace, isDefault=True)
    await create_channel(api, alice, workspace, name="other")
    await create_channel(api, alice, workspace, name="private", kind="PRIVATE")
    archived = await create_channel(api, alice, workspace, name="archived", isDefault=True)
    await api.data(alice, "mutation ($id: ID!) { archiveChannel(channelId: $id) { id } }", id=archived)
    for _ in range(3):
        await api.send(alice, default, "before")
    # One of them has a cached state.
    await api.sessions(bob)
    device = await other_api.listen(bob, LIVE_SESSIONS)
    await other_api.data(bob, JOIN, id=workspace)
    await add_members(api, workspace, carol)
    await api.wait_until_idle()
    event = await device.next()
    assert event["reason"] == "MEMBERSHIP" and [s["conversation"]["id"] for s in event["sessions"]] == [default]
    for user in (bob, carol):
        for where in (api, other_api):
            session = (await where.data(user, SESSION, id=default))["session"]
            assert session == {"readSeq": 3, "deliveredSeq": 3, "writeSeq": 3, "unreadCount": 0, "status": "ACTIVE"}
        assert followed(api, user) == {default}
    row = api.database["channels"].find_one({"_id": f"{workspace} {default}"})
    assert row is not None and row["mc"] == 3
    await api.send(alice, default, "after")
    assert (await other_api.data(carol, SESSION, id=default))["session"]["unreadCount"] == 1
    before = await api.stored_hashes()
    await other_api.data(bob, JOIN, id=workspace)
    assert await api.stored_hashes() == before


async def test_users_who_leave_follow_no_channel_until_they_join_again(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice, isOpen=True)
    default = await create_channel(api, alice, workspace, isDefault=True)
    await api.data(bob, JOIN, id=workspace)
    await api.send(alice, default, "unread")
    assert (await api.data(bob, SESSION, id=default))["session"]["unreadCount"] == 1
    await api.data(bob, LEAVE, id=workspace)
    assert followed(api, bob) == set()
    assert await api.data(bob, SESSION, id=default) == {"session": None, "channel": None}
    await api.data(bob, JOIN, id=workspace)
    assert followed(api, bob) == {default}
    assert (await api.data(bob, SESSION, id=default))["session"]["unreadCount"] == 0


@pytest.mark.parametrize("is_added", [True, False])
async def test_a_cached_state_gets_default_channels_after_the_death_of_a_server(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, is_added: bool
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice, isOpen=True)
    channels = [await create_channel(api, alice, workspace, isDefault=True) for _ in range(2)]
    await api.sessions(bob)
    store = api.services.app.store
    with monkeypatch.context() as patch:
        patch.setattr(store.channel_follows, "_apply_rows", _die)
        patch.setattr(store.locks, "_release", _nothing)
        if is_added:
            answer = await api.run(SERVICE, ADD, id=workspace, users=[bob])
        else:
            answer = await api.run(bob, JOIN, id=workspace)
        assert answer["errors"][0]["extensions"]["code"] == "UNAVAILABLE"
    assert followed(api, bob) == set(channels)
    # The lock of a server that has died ends after some seconds.
    await store.cache.run([Call("DEL", (store.keys.user(UserId(bob))[0].removesuffix("meta") + "lock",))])
    for channel in channels:
        session = (await other_api.data(bob, SESSION, id=channel))["session"]
        assert session["status"] == "ACTIVE"


async def _die(*_: Any) -> None:
    raise Unreachable("the server has died")


async def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing, as a server that has died."""


async def test_joining_again_keeps_the_cached_state(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice, isOpen=True)
    await api.data(bob, JOIN, id=workspace)
    await create_channel(api, alice, workspace, isDefault=True)
    device = await other_api.listen(bob, LIVE_SESSIONS)
    for _ in range(2):
        await api.data(bob, JOIN, id=workspace)
        await add_members(api, workspace, bob)
    await device.expect_no_event()


async def test_a_workspace_that_closes_meanwhile_is_not_joined(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice, isOpen=True)

    async def close(*_: Any) -> list[Any]:
        await api.data(alice, UPDATE, id=workspace, input={"isOpen": False})
        return []

    monkeypatch.setattr("resolvers.workspaces.membership.joining.list_default_channels", close)
    assert await api.expect_refusal(bob, JOIN, id=workspace) == Refusal("NOT_FOUND", "workspaceId")
    assert await my_workspaces(api, bob) == []
    expect_right_counts(api, workspace)
