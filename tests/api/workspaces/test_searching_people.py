"""searchUsers finds people who share a workspace, and members of one workspace."""

from __future__ import annotations

import pytest

from tests.api.client import Api, Refusal, gather_all
from tests.api.conftest import OpenApi
from tests.api.workspaces.calls import DELETE, LEAVE, add_members, create_workspace, nickname

SEARCH = """query ($query: String!, $workspace: ID, $first: Int = 100, $after: String) {
    searchUsers(query: $query, workspaceId: $workspace, first: $first, after: $after) {
        edges { node { id } } pageInfo { hasNextPage endCursor } } }"""


async def found(api: Api, viewer: str, query: str, workspace: str | None = None, page: int = 100) -> list[str]:
    ids: list[str] = []
    after = None
    while True:
        answer = await api.data(viewer, SEARCH, query=query, workspace=workspace, first=page, after=after)
        ids += [edge["node"]["id"] for edge in answer["searchUsers"]["edges"]]
        if not answer["searchUsers"]["pageInfo"]["hasNextPage"]:
            return ids
        after = answer["searchUsers"]["pageInfo"]["endCursor"]


@pytest.mark.parametrize("page", [1, 2, 100])
async def test_people_who_share_a_workspace_are_found(api: Api, page: int) -> None:
    alice, bob, carol, dave, erin, stranger = await api.create_users("alice", "bob", "carol", "dave", "erin", "zz")
    one, other = await create_workspace(api, alice), await create_workspace(api, bob)
    await add_members(api, one, bob, carol)
    await add_members(api, other, alice, carol, dave)
    foreign = await create_workspace(api, stranger)
    await add_members(api, foreign, erin)
    await api.send(alice, erin)
    await nickname(api, carol, one, "Aaron")
    assert await found(api, alice, "", page=page) == [bob, carol, dave, erin]
    assert await found(api, alice, "aaron", page=page) == [carol]
    assert await found(api, alice, "car", page=page) == [carol]
    assert await found(api, alice, stranger, page=page) == []
    assert await found(api, alice, "", one, page) == [bob, carol]
    assert await found(api, alice, "", other, page) == [bob, carol, dave]
    assert await found(api, alice, "aaron", one, page) == [carol]
    assert await found(api, alice, "aaron", other, page) == []
    assert await found(api, stranger, "", page=page) == [erin]


async def test_former_members_and_deleted_workspaces_are_not_searched(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace, deleted = await create_workspace(api, alice), await create_workspace(api, alice)
    for each in (workspace, deleted):
        await add_members(api, each, bob, carol)
    await gather_all(api.data(bob, LEAVE, id=workspace), api.data(alice, DELETE, id=deleted))
    assert await found(api, alice, "") == [carol] == await found(api, alice, "", workspace)
    assert await found(api, bob, "") == []
    for user, unknown in ((bob, workspace), (alice, deleted), (alice, "w_1"), (alice, "")):
        refusal = await api.expect_refusal(user, SEARCH, query="al", workspace=unknown)
        assert refusal == Refusal("NOT_FOUND", "workspaceId")


async def test_a_directory_does_not_widen_the_search_in_a_workspace(open_api: OpenApi) -> None:
    async with open_api("directory", user_directory=True) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        workspace = await create_workspace(api, alice, isOpen=True)
        await add_members(api, workspace, bob)
        assert await found(api, alice, "carol") == [carol]
        assert await found(api, alice, "carol", workspace) == []
        assert await found(api, alice, "bob", workspace) == [bob]
        assert await found(api, alice, "") == [bob]
        refusal = await api.expect_refusal(carol, SEARCH, query="bo", workspace=workspace)
        assert refusal == Refusal("NOT_FOUND", "workspaceId")
