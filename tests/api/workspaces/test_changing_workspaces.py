"""Updating, transferring and deleting workspaces."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.errors import Unreachable
from store.workspaces.permissions import Permission
from tests.api.client import Api, Refusal, gather_all
from tests.api.workspaces.calls import (
    CREATE,
    DELETE,
    JOIN,
    LEAVE,
    OPEN,
    SERVICE,
    SET_NICKNAME,
    TRANSFER,
    UPDATE,
    add_members,
    create_invite,
    create_workspace,
    give_role,
    member_ids,
    my_workspaces,
    own_workspace,
    preview,
    workspace_of,
)

OUTSIDE = Refusal("NOT_FOUND", "workspaceId")
FIELDS: Any = {
    "name": "Renamed",
    "iconUrl": "https://x.test/new.png",
    "isOpen": True,
    "metadata": {"b": [2]},
}


def version_of(api: Api, workspace: str) -> int:
    return int((api.database["workspaces"].find_one({"_id": workspace}) or {})["pv"])


@pytest.mark.parametrize("field", FIELDS)
async def test_one_field_changes_and_all_others_stay(api: Api, other_api: Api, field: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice, "Before", iconUrl="https://x.test/old.png", metadata={"a": 1})
    await add_members(api, workspace, bob)
    await give_role(api, workspace, bob, Permission.MANAGE_WORKSPACE)
    before = await own_workspace(other_api, alice, workspace)
    updated = (await api.data(bob, UPDATE, id=workspace, input={field: FIELDS[field]}))["updateWorkspace"]
    assert updated == await own_workspace(other_api, bob, workspace)
    assert await own_workspace(other_api, alice, workspace) == before | {field: FIELDS[field]}
    stored = await api.stored_hashes()
    await api.data(bob, UPDATE, id=workspace, input={field: FIELDS[field]})
    await api.data(bob, UPDATE, id=workspace, input={})
    await api.data(bob, UPDATE, id=workspace, input=dict.fromkeys(FIELDS.keys() - {"iconUrl"}))
    assert await api.stored_hashes() == stored


async def test_an_icon_is_removed(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice, iconUrl="https://x.test/i.png")
    updated = (await api.data(alice, UPDATE, id=workspace, input={"iconUrl": None}))["updateWorkspace"]
    assert updated["iconUrl"] is None


async def test_open_workspaces_follow_the_changes(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    word = alice.replace("-", "")
    workspace = await create_workspace(api, alice, "Other")

    async def found(query: str) -> bool:
        edges = (await api.data(bob, OPEN, query=query))["openWorkspaces"]["edges"]
        return workspace in [edge["node"]["id"] for edge in edges]

    await api.data(alice, UPDATE, id=workspace, input={"name": f"My {word}"})
    assert not await found(word)
    await api.data(alice, UPDATE, id=workspace, input={"isOpen": True})
    assert await found(word)
    await api.data(alice, UPDATE, id=workspace, input={"name": f"New{word}"})
    assert not await found(word) and await found(f"new{word}")
    await api.data(alice, UPDATE, id=workspace, input={"isOpen": False})
    assert not await found(f"new{word}")
    assert await api.expect_refusal(bob, JOIN, id=workspace) == OUTSIDE
    assert await workspace_of(api, bob, workspace) is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"iconUrl": "x"}, "iconUrl"),
        ({"metadata": "m" * 8_192}, "metadata"),
        ({"plan": "GOLD"}, None),
    ],
)
async def test_invalid_values_change_nothing(api: Api, fields: Any, field: str | None) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice)
    before = await api.stored_hashes()
    refusal = await api.expect_refusal(alice, UPDATE, id=workspace, input={"name": "New"} | fields)
    assert (refusal.code, refusal.field) == ("INVALID_INPUT", field or refusal.field)
    assert await api.stored_hashes() == before


async def test_only_services_set_the_plan(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    await api.create_users("service")
    workspace = await create_workspace(api, alice)
    await api.data(SERVICE, "{ me { id } }")
    before = await api.stored_hashes()
    refusal = await api.expect_refusal(alice, UPDATE, id=workspace, input={"plan": "PRO"})
    assert refusal == Refusal("FORBIDDEN", "plan")
    assert await api.expect_refusal(SERVICE, UPDATE, id="w_1", input={"plan": "PRO"}) == OUTSIDE
    refusal = await api.expect_refusal(SERVICE, UPDATE, id=workspace, input={"plan": "PRO", "name": "X"})
    assert refusal == OUTSIDE
    assert await api.stored_hashes() == before
    updated = (await api.data(SERVICE, UPDATE, id=workspace, input={"plan": "PRO"}))["updateWorkspace"]
    assert updated["plan"] == "PRO" == (await own_workspace(api, alice, workspace))["plan"]
    await api.data(SERVICE, UPDATE, id=workspace, input={"plan": "FREE"})
    assert (await own_workspace(api, alice, workspace))["plan"] == "FREE"


async def test_the_new_owner_gets_the_rights_that_the_old_owner_loses(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob, carol)
    before = await api.stored_hashes()
    assert await api.expect_refusal(bob, TRANSFER, id=workspace, user=bob) == Refusal("FORBIDDEN")
    assert await api.expect_refusal(alice, TRANSFER, id=workspace, user=alice) == Refusal("INVALID_INPUT", "userId")
    for unknown in ("nobody", ""):
        refusal = await api.expect_refusal(alice, TRANSFER, id=workspace, user=unknown)
        assert refusal == Refusal("NOT_A_MEMBER", "userId")
    assert await api.stored_hashes() == before
    assert (await other_api.data(bob, LEAVE, id=workspace)) == {"leaveWorkspace": True}
    await add_members(api, workspace, bob)
    moved = (await api.data(alice, TRANSFER, id=workspace, user=bob))["transferWorkspace"]
    assert moved["owner"] == {"id": bob} == (await own_workspace(other_api, carol, workspace))["owner"]
    for query, variables in ((UPDATE, {"input": {"name": "Mine"}}), (DELETE, {}), (TRANSFER, {"user": carol})):
        assert await other_api.expect_refusal(alice, query, id=workspace, **variables) == Refusal("FORBIDDEN")
    assert (await other_api.expect_refusal(bob, LEAVE, id=workspace)).code == "OWNER_CANNOT_LEAVE"
    await other_api.data(bob, UPDATE, id=workspace, input={"name": "Bob's"})
    assert await other_api.data(alice, LEAVE, id=workspace) == {"leaveWorkspace": True}


async def test_nobody_finds_a_deleted_workspace(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    fields = {"domain": f"gone-{alice[-8:]}", "isOpen": True}
    workspace = await create_workspace(api, alice, **fields)
    await add_members(api, workspace, bob)
    code = await create_invite(api, alice, workspace)
    await own_workspace(other_api, bob, workspace)
    assert await api.expect_refusal(bob, DELETE, id=workspace) == Refusal("FORBIDDEN")
    assert await api.data(alice, DELETE, id=workspace) == {"deleteWorkspace": True}
    for where in (api, other_api):
        for user in (alice, bob, carol):
            assert await workspace_of(where, user, workspace) is None
            assert await my_workspaces(where, user) == []
            assert await preview(where, user, code) is None
            assert await where.expect_refusal(user, JOIN, id=workspace) == OUTSIDE
            assert await where.expect_refusal(user, JOIN, code=code) == Refusal("NOT_FOUND", "code")
            for query in (DELETE, LEAVE):
                assert await where.expect_refusal(user, query, id=workspace) == OUTSIDE
    refusal = await api.expect_refusal(SERVICE, UPDATE, id=workspace, input={"plan": "PRO"})
    assert refusal == OUTSIDE
    again = (await api.data(bob, CREATE, input={"name": "Again"} | fields))["createWorkspace"]
    assert again["domain"] == fields["domain"] and again["id"] != workspace


async def test_a_repeated_deletion_completes_one_that_failed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice)
    changes = api.services.app.store.policy_changes

    async def fail(*_args: Any) -> None:
        raise Unreachable("a server does not answer")

    async def do_nothing() -> None:
        """Let nobody else complete it."""

    monkeypatch.setattr(changes, "complete_incomplete", do_nothing)
    with monkeypatch.context() as patch:
        patch.setattr(changes.completions, "announce", fail)
        assert (await api.expect_refusal(alice, DELETE, id=workspace)).code == "UNAVAILABLE"
    row = api.database["workspaces"].find_one({"_id": workspace})
    assert row is not None and row["pn"]
    assert (await api.expect_refusal(alice, DELETE, id=workspace)).code == "NOT_FOUND"
    row = api.database["workspaces"].find_one({"_id": workspace})
    assert row is not None and row["pn"] == []


async def test_outsiders_change_nothing(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    closed, opened = await create_workspace(api, alice), await create_workspace(api, alice, isOpen=True)
    before = await api.stored_hashes()
    for workspace in (closed, opened, "w_1", "", f"r_{closed[2:]}"):
        for query, variables in (
            (UPDATE, {"input": {"name": "Mine"}}),
            (DELETE, {}),
            (LEAVE, {}),
            (TRANSFER, {"user": bob}),
            (SET_NICKNAME, {"nickname": "x"}),
        ):
            assert await api.expect_refusal(bob, query, id=workspace, **variables) == OUTSIDE
    assert await api.stored_hashes() == before


async def test_members_without_the_permission_change_nothing(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob)
    await give_role(api, workspace, bob, ~(Permission.MANAGE_WORKSPACE | Permission.ADMINISTRATOR))
    before = await api.stored_hashes()
    for query, variables in ((UPDATE, {"input": {"name": "Mine"}}), (DELETE, {}), (TRANSFER, {"user": alice})):
        assert (await api.expect_refusal(bob, query, id=workspace, **variables)).code == "FORBIDDEN"
    assert await api.stored_hashes() == before


async def test_changes_at_once_are_all_made(api: Api, other_api: Api) -> None:
    alice, *users = await api.create_users("alice", *(f"u{number}" for number in range(4)))
    workspace = await create_workspace(api, alice, isOpen=True)
    await add_members(api, workspace, *users[:2])
    before = version_of(api, workspace)
    await gather_all(
        api.data(alice, UPDATE, id=workspace, input={"name": "New"}),
        other_api.data(alice, UPDATE, id=workspace, input={"metadata": {"a": 7}}),
        api.data(users[0], LEAVE, id=workspace),
        other_api.data(users[1], LEAVE, id=workspace),
        api.data(users[2], JOIN, id=workspace),
        other_api.data(users[3], JOIN, id=workspace),
    )
    seen = await own_workspace(api, alice, workspace)
    assert (seen["name"], seen["metadata"], seen["memberCount"]) == ("New", {"a": 7}, 3)
    assert version_of(api, workspace) == before + 4
    assert await member_ids(other_api, alice, workspace) == [alice, *users[2:]]
