"""Events that members receive when a workspace, a nickname or a membership changes; none if nothing changes."""

from __future__ import annotations

import pytest

from tests.api.client import Api, Json, Subscriber, gather_all
from tests.api.workspaces.calls import (
    CREATE_INVITE,
    DELETE,
    JOIN,
    LEAVE,
    SERVICE,
    SET_NICKNAME,
    TRANSFER,
    UPDATE,
    add_members,
    create_workspace,
    nickname,
)

LIVE = """subscription ($id: ID!) { workspaceEvents(workspaces: [{id: $id}]) {
    __typename
    ... on WorkspaceChanged { workspace { name owner { id } } }
    ... on OwnMembershipChanged { workspaceId member { nickname } } } }"""


async def listen(api: Api, user: str, workspace: str) -> Subscriber:
    subscriber = await api.subscribe(user, LIVE, id=workspace)
    assert (await subscriber.next())["__typename"] == "WorkspaceCaughtUp"
    return subscriber


@pytest.fixture
async def people(api: Api) -> tuple[str, list[str]]:
    users = await api.create_users("alice", "bob", "carol")
    workspace = await create_workspace(api, users[0], "Before")
    await add_members(api, workspace, *users[1:])
    return workspace, users


def changed(name: str, owner: str) -> Json:
    return {"__typename": "WorkspaceChanged", "workspace": {"name": name, "owner": {"id": owner}}}


async def test_changes_of_the_profile_and_the_owner_reach_all_members(
    api: Api, other_api: Api, people: tuple[str, list[str]]
) -> None:
    workspace, (alice, bob, carol) = people
    devices = [await listen(api, alice, workspace), await listen(other_api, carol, workspace)]
    await other_api.data(alice, UPDATE, id=workspace, input={"name": "After"})
    assert [await device.next() for device in devices] == [changed("After", alice)] * 2
    await api.data(alice, TRANSFER, id=workspace, user=bob)
    assert [await device.next() for device in devices] == [changed("After", bob)] * 2


async def test_a_nickname_and_the_end_of_a_membership_concern_one_member(
    api: Api, other_api: Api, people: tuple[str, list[str]]
) -> None:
    workspace, (alice, bob, _) = people
    own, others = await listen(other_api, bob, workspace), await listen(api, alice, workspace)
    await nickname(api, alice, workspace, "Bobby", bob)
    event = {"__typename": "OwnMembershipChanged", "workspaceId": workspace}
    assert await own.next() == event | {"member": {"nickname": "Bobby"}}
    await api.data(bob, LEAVE, id=workspace)
    assert await own.next() == event | {"member": None}
    await api.data(alice, UPDATE, id=workspace, input={"name": "Without Bob"})
    assert await others.next() == changed("Without Bob", alice)
    await own.expect_no_event()


async def test_members_of_a_deleted_workspace_are_sent_the_end(api: Api, people: tuple[str, list[str]]) -> None:
    workspace, users = people
    devices = [await listen(api, user, workspace) for user in users]
    await api.data(users[0], DELETE, id=workspace)
    for device in devices:
        assert await device.next() == {
            "__typename": "OwnMembershipChanged", "workspaceId": workspace, "member": None,
        }  # fmt: skip


async def test_nothing_is_sent_when_nothing_changes(api: Api, people: tuple[str, list[str]]) -> None:
    workspace, (alice, bob, carol) = people
    (stranger,) = await api.create_users("stranger")
    await nickname(api, bob, workspace, "Bobby")
    devices = [await listen(api, user, workspace) for user in (alice, bob, carol)]
    unchanged = [
        (alice, UPDATE, {"input": {"name": "Before"}}),
        (bob, SET_NICKNAME, {"nickname": "Bobby"}),
        (bob, JOIN, {}),
    ]
    for user, query, variables in unchanged:
        await api.data(user, query, id=workspace, **variables)
    await add_members(api, workspace, bob, carol)
    refused = [
        (bob, UPDATE, {"input": {"name": "Mine"}}),
        (bob, TRANSFER, {"user": carol}),
        (alice, TRANSFER, {"user": stranger}),
        (bob, SET_NICKNAME, {"user": carol, "nickname": "x"}),
        (alice, LEAVE, {}),
        (stranger, LEAVE, {}),
        (stranger, JOIN, {}),
        (stranger, CREATE_INVITE, {}),
        (bob, DELETE, {}),
        (SERVICE, UPDATE, {"input": {"name": "x"}}),
    ]
    for user, query, variables in refused:
        await api.expect_refusal(user, query, id=workspace, **variables)
    await gather_all(*(device.expect_no_event() for device in devices))
