"""Leaving workspaces, and nicknames."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import ConversationId
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.client import Api, Refusal, gather_all, private_id, wait_until
from tests.api.workspaces.calls import (
    JOIN,
    LEAVE,
    SET_NICKNAME,
    add_members,
    create_invite,
    create_workspace,
    expect_right_counts,
    give_role,
    list_members,
    member_ids,
    my_workspaces,
    nickname,
    own_workspace,
    workspace_of,
)
from tests.api.workspaces.role_calls import UPDATE_ROLE, everyone
from tests.waiting import TIMEOUT_SECONDS

OUTSIDE = Refusal("NOT_FOUND", "workspaceId")


async def test_a_member_leaves_and_joins_again_as_a_new_one(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob)
    await give_role(api, workspace, bob, Permission.MANAGE_NICKNAMES)
    await nickname(api, bob, workspace, "Bobby")
    await own_workspace(other_api, bob, workspace)
    code = await create_invite(api, alice, workspace)
    assert await api.data(bob, LEAVE, id=workspace) == {"leaveWorkspace": True}
    for where in (api, other_api):
        assert await workspace_of(where, bob, workspace) is None
        assert await my_workspaces(where, bob) == []
        assert (await own_workspace(where, alice, workspace))["memberCount"] == 1
        assert await member_ids(where, alice, workspace) == [alice]
    expect_right_counts(api, workspace)
    before = await api.stored_hashes()
    assert await other_api.expect_refusal(bob, LEAVE, id=workspace) == OUTSIDE
    assert await api.stored_hashes() == before
    joined = (await other_api.data(bob, JOIN, code=code))["joinWorkspace"]
    assert joined["viewer"]["nickname"] is None
    refusal = await api.expect_refusal(bob, SET_NICKNAME, id=workspace, user=alice, nickname="x")
    assert refusal == Refusal("FORBIDDEN")
    expect_right_counts(api, workspace)


async def test_the_owner_cannot_leave(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice)
    before = await api.stored_hashes()
    assert await api.expect_refusal(alice, LEAVE, id=workspace) == Refusal("OWNER_CANNOT_LEAVE")
    assert await api.stored_hashes() == before


async def test_counts_are_right_when_users_join_and_leave_at_once(api: Api, other_api: Api) -> None:
    alice, *users = await api.create_users("alice", *(f"u{number}" for number in range(5)))
    workspace = await create_workspace(api, alice, isOpen=True)
    for _ in range(2):
        calls = [where.run(user, JOIN, id=workspace) for user in users for where in (api, other_api)]
        calls += [where.run(user, LEAVE, id=workspace) for user in users for where in (other_api, api)]
        answers = await gather_all(*calls)
        codes = {answer["errors"][0]["extensions"]["code"] for answer in answers if "errors" in answer}
        assert codes <= {"NOT_FOUND"}
        expect_right_counts(api, workspace)
        members = set(await member_ids(api, alice, workspace))
        assert members == {alice} | {user for user in users if workspace in await my_workspaces(other_api, user)}


async def test_members_are_listed_and_found_by_nickname(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace, other = await create_workspace(api, alice), await create_workspace(api, alice)
    for id_ in (workspace, other):
        await add_members(api, id_, bob, carol)
    named = await nickname(api, bob, workspace, "Zoë the Great")
    assert (named["nickname"], named["user"]["id"]) == ("Zoë the Great", bob)
    assert await member_ids(other_api, carol, workspace) == [alice, carol, bob]
    for query in ("zoe", "great", "bob"):
        assert await member_ids(other_api, carol, workspace, query=query) == [bob]
    assert await member_ids(api, carol, other) == [alice, bob, carol]
    assert await member_ids(api, carol, other, query="zoe") == []
    members = {m["user"]["id"]: m["nickname"] for m in await list_members(api, alice, workspace)}
    assert members == {alice: None, bob: "Zoë the Great", carol: None}
    assert (await own_workspace(other_api, bob, workspace))["viewer"]["nickname"] == "Zoë the Great"
    await api.data(bob, 'mutation { updateMe(displayName: "Aaron") { id } }')
    assert await member_ids(api, carol, workspace) == [alice, carol, bob]
    assert await member_ids(api, carol, other) == [bob, alice, carol]
    assert await member_ids(api, carol, workspace, query="aaron") == [bob]
    assert (await nickname(api, bob, workspace, None))["nickname"] is None
    assert await member_ids(other_api, carol, workspace) == [bob, alice, carol]
    assert await member_ids(other_api, carol, workspace, query="zoe") == []


async def test_the_same_nickname_changes_nothing(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice)
    before = await api.stored_hashes()
    assert (await nickname(api, alice, workspace, None))["nickname"] is None
    assert await api.stored_hashes() == before
    await nickname(api, alice, workspace, "Al")
    before = await api.stored_hashes()
    assert (await nickname(api, alice, workspace, "Al", alice))["nickname"] == "Al"
    assert await api.stored_hashes() == before


async def test_managers_name_members_below_them(api: Api) -> None:
    alice, low, high, plain = await api.create_users("alice", "low", "high", "plain")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, low, high, plain)
    await give_role(api, workspace, low, Permission.MANAGE_NICKNAMES, 3)
    await give_role(api, workspace, high, Permission.VIEW_CHANNEL, 3)
    before = await api.stored_hashes()
    for user, of in ((low, high), (low, alice)):
        refusal = await api.expect_refusal(user, SET_NICKNAME, id=workspace, user=of, nickname="x")
        assert refusal == Refusal("FORBIDDEN", "userId")
    for user, of in ((plain, low), (high, plain)):
        refusal = await api.expect_refusal(user, SET_NICKNAME, id=workspace, user=of, nickname="x")
        assert refusal == Refusal("FORBIDDEN")
    for unknown in ("nobody", ""):
        refusal = await api.expect_refusal(low, SET_NICKNAME, id=workspace, user=unknown, nickname="x")
        assert refusal == Refusal("NOT_A_MEMBER", "userId")
    assert await api.stored_hashes() == before
    assert (await nickname(api, low, workspace, "Plain", plain))["nickname"] == "Plain"
    assert (await nickname(api, alice, workspace, "High", high))["nickname"] == "High"
    assert (await nickname(api, low, workspace, "Low"))["nickname"] == "Low"


@pytest.mark.parametrize("name", ["", " ", "n" * 33, "a\nb", "\u200b"])
async def test_an_invalid_nickname_is_refused(api: Api, name: Any) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice)
    before = await api.stored_hashes()
    refusal = await api.expect_refusal(alice, SET_NICKNAME, id=workspace, nickname=name)
    assert refusal == Refusal("INVALID_INPUT", "nickname")
    assert await api.stored_hashes() == before


CREATE_CHANNEL = "mutation ($input: CreateChannelInput!) { createChannel(input: $input) { id } }"
CHANNEL = "query ($id: ID!) { channel(id: $id) { name } }"
OWN_EVENTS = """subscription ($id: ID!) { workspaceEvents(workspaces: [{id: $id}]) {
    __typename ... on OwnMembershipChanged { member { nickname } } } }"""
AUTHORS = "query ($id: ID!) { messages(conversationId: $id) { edges { node { authorName sender { id } } } } }"


async def create_channel(api: Api, user: str, workspace: str, **fields: Any) -> str:
    wanted = {"workspaceId": workspace, "name": "general"} | fields
    channel: str = (await api.data(user, CREATE_CHANNEL, input=wanted))["createChannel"]["id"]
    return channel


async def test_leaving_ends_memberships_of_channels(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob, carol)
    private = await create_channel(api, alice, workspace, kind="PRIVATE", memberIds=[bob, carol])
    public = await create_channel(api, alice, workspace, memberIds=[bob])
    for sender in (bob, alice):
        await api.send(sender, private, "secret")
    assert (await other_api.data(bob, CHANNEL, id=private))["channel"] == {"name": "general"}
    await api.data(bob, LEAVE, id=workspace)
    rows = {row["_id"]: row for row in api.database["members"].find({"_id": {"$regex": f" {bob}$"}})}
    assert {row: fields["i"] for row, fields in rows.items()} == {f"{private} {bob}": [[1, 2]]}
    counts = [api.database["channels"].find_one({"_id": f"{workspace} {id_}"}) for id_ in (private, public)]
    assert [(row or {})["mc"] for row in counts] == [2, 1]
    await add_members(api, workspace, bob)
    for where in (api, other_api):
        assert (await where.data(bob, CHANNEL, id=private))["channel"] is None
        assert (await where.data(carol, CHANNEL, id=private))["channel"] == {"name": "general"}
        assert (await where.data(bob, CHANNEL, id=public))["channel"] == {"name": "general"}
        assert (await where.expect_send_refusal(bob, private)).code == "NOT_FOUND"


async def test_nicknames_are_shown_as_the_names_of_authors(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob)
    channel = await create_channel(api, alice, workspace)
    hello = await api.send(bob, channel, "hello")
    reply = 'mutation ($id: ID!) { sendMessage(input: {threadOf: $id, content: "x"}) { message { conversationId } } }'
    thread = (await api.data(bob, reply, id=hello["message"]["id"]))["sendMessage"]["message"]["conversationId"]
    await api.send(bob, alice, "in private")

    async def authors(where: Api, conversation: str) -> list[str]:
        edges = (await where.data(alice, AUTHORS, id=conversation))["messages"]["edges"]
        return [edge["node"]["authorName"] for edge in edges]

    assert await authors(api, channel) == await authors(other_api, channel) == [bob]
    await nickname(api, bob, workspace, "Bobby")
    assert await authors(api, channel) == await authors(api, thread) == ["Bobby"]

    async def other_server_shows_it() -> bool:
        return await authors(other_api, channel) == ["Bobby"]

    await wait_until(other_server_shows_it)
    assert await authors(api, private_id(alice, bob)) == [bob]
    await api.data(bob, LEAVE, id=workspace)
    assert await authors(api, channel) == [bob]


async def test_a_nickname_waits_for_no_server_and_changes_no_rights(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob)
    channel = await create_channel(api, alice, workspace)
    own = await other_api.subscribe(bob, OWN_EVENTS, id=workspace)
    assert (await own.next())["__typename"] == "WorkspaceCaughtUp"
    head = api.services.app.store.keys.head(ConversationId(channel))
    reads = Call("HGETALL", (head,))
    before = await api.services.app.store.cache.one(reads)
    version = (api.database["workspaces"].find_one({"_id": workspace}) or {})["pv"]

    async def hang(*_args: Any) -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(api.services.app.bus.calls, "ask", hang)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await nickname(api, bob, workspace, "Bobby")
    assert (await own.next())["member"] == {"nickname": "Bobby"}
    assert (api.database["workspaces"].find_one({"_id": workspace}) or {})["pv"] == version
    assert await api.services.app.store.cache.one(reads) == before


async def test_a_nickname_is_not_changed_under_rights_that_have_ended(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob)
    changes = api.services.app.store.policy_changes
    store = changes._store

    async def demote_and_store(*args: Any) -> None:
        await other_api.data(alice, UPDATE_ROLE, id=everyone(workspace), input={"permissions": ["VIEW_CHANNEL"]})
        await store(*args)

    monkeypatch.setattr(changes, "_store", demote_and_store)
    assert (await api.expect_refusal(bob, SET_NICKNAME, id=workspace, nickname="Bobby")).code == "FORBIDDEN"
    assert (await own_workspace(api, bob, workspace))["viewer"]["nickname"] is None


async def _notify_nobody(*_args: Any) -> None:
    """Lose the frame."""


async def test_a_server_that_knows_an_earlier_nickname_changes_it_too(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice)
    await nickname(other_api, alice, workspace, "One")
    # Other servers are not notified.
    with monkeypatch.context() as patch:
        patch.setattr(api.services.app.bus, "notify_all", _notify_nobody)
        await nickname(api, alice, workspace, "Two")
    assert (await nickname(other_api, alice, workspace, "One"))["nickname"] == "One"
    assert [m["nickname"] for m in await list_members(api, alice, workspace)] == ["One"]
