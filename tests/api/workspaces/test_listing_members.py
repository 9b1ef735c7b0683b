"""The members of a workspace: by name, by the beginning of a name, by role, in pages."""

from __future__ import annotations

from typing import Any

import pytest

from store.users.search_text import normalize
from tests.api.client import Api, Refusal, gather_all, wait_until
from tests.api.workspaces.calls import (
    MEMBERS,
    add_members,
    create_workspace,
    list_members,
    member_ids,
)

RENAME = "mutation ($name: String!) { updateMe(displayName: $name) { displayName } }"
NAMES = ["Ada Byron", "ada lovelace", "Ælfgar", "Bo", "Émile Zola", "emma", "Łukasz", "Wang 小明", "Zoë"]


async def rename(api: Api, user: str, name: str) -> None:
    await api.data(user, RENAME, name=name)


@pytest.fixture(scope="module")
async def named(process: Api) -> tuple[str, list[str]]:
    """A workspace, and its members in the order of their names; the first is the owner."""
    api = process
    users = await api.create_users(*(f"u{number}" for number in range(len(NAMES))))
    by_name = dict(zip(sorted(NAMES, key=normalize), users, strict=True))
    await gather_all(*(rename(api, user, name) for name, user in by_name.items()))
    workspace = await create_workspace(api, users[0])
    await add_members(api, workspace, *reversed(users))
    return workspace, users


@pytest.mark.parametrize("page", [1, 2, 4, 100])
async def test_members_are_listed_by_name_in_pages(api: Api, named: tuple[str, list[str]], page: int) -> None:
    workspace, users = named
    members = await list_members(api, users[-1], workspace, page)
    assert [member["user"]["id"] for member in members] == users
    assert [member["user"]["displayName"] for member in members] == sorted(NAMES, key=normalize)
    assert all(member["nickname"] is None and member["timedOutUntil"] is None for member in members)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("ada", ["Ada Byron", "ada lovelace"]),
        ("ADA L", ["ada lovelace"]),
        ("love", ["ada lovelace"]),
        ("lovelac", ["ada lovelace"]),
        ("e", ["Émile Zola", "emma"]),
        ("aelf", ["Ælfgar"]),
        ("luk", ["Łukasz"]),
        ("小", ["Wang 小明"]),
        ("zo", ["Émile Zola", "Zoë"]),
        ("ovelace", []),
        ("x", []),
        ("", sorted(NAMES, key=normalize)),
    ],
)
async def test_members_are_found_by_the_beginning_of_a_name(
    api: Api, named: tuple[str, list[str]], query: str, names: list[str]
) -> None:
    workspace, users = named
    for page in (1, 100):
        members = await list_members(api, users[3], workspace, page, query=query)
        assert [member["user"]["displayName"] for member in members] == names


async def test_another_name_moves_a_member_in_all_workspaces(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspaces = [await create_workspace(api, alice) for _ in range(3)]
    for workspace in workspaces:
        await add_members(api, workspace, bob)
        assert await member_ids(api, alice, workspace) == [alice, bob]
    await rename(api, alice, "Zoë")
    for workspace in workspaces:
        assert await member_ids(other_api, bob, workspace) == [bob, alice]
        assert await member_ids(other_api, bob, workspace, query="zoe") == [alice]
    await api.upsert_users({"id": alice, "displayName": "Aaron"}, {"id": bob, "displayName": "Aa"})
    for workspace in workspaces:
        assert await member_ids(other_api, bob, workspace) == [bob, alice]
        assert await member_ids(other_api, bob, workspace, query="zoe") == []


async def test_housekeeping_lists_users_renamed_by_an_older_server(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob)
    api.database["users"].update_one({"_id": alice}, {"$set": {"n": "Zoë"}})
    assert await member_ids(api, alice, workspace, query="zoe") == []
    search = api.services.app.store.user_search
    await search.fill()
    assert await member_ids(api, alice, workspace) == [bob, alice]
    assert await member_ids(api, alice, workspace, query="zoe") == [alice]
    before = await api.stored_hashes()
    await search.fill()
    assert await api.stored_hashes() == before


async def test_renaming_and_joining_at_once_end_with_the_new_name(api: Api, other_api: Api) -> None:
    alice, *users = await api.create_users("alice", *(f"u{number}" for number in range(6)))
    workspaces = [await create_workspace(api, alice) for _ in range(3)]
    renames = [rename(other_api, user, f"new {user}") for user in users]
    await gather_all(*(add_members(api, workspace, *users) for workspace in workspaces), *renames)

    async def all_are_found() -> bool:
        await api.services.app.store.user_search.fill()
        found = [await member_ids(api, alice, workspace, query="new u") for workspace in workspaces]
        return found == [users] * 3

    await wait_until(all_are_found)


async def test_members_with_a_role_are_listed(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob, carol)
    everyone = f"r_{workspace[2:]}"
    assert await member_ids(api, alice, workspace, role=everyone) == [alice, bob, carol]
    other = await create_workspace(api, alice)
    for role in (f"r_{other[2:]}", f"r_{workspace[2:]}.1", workspace, ""):
        assert await member_ids(api, alice, workspace, role=role) == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"first": 0}, "first"),
        ({"first": 101}, "first"),
        ({"after": "x"}, "after"),
        ({"query": "q" * 101}, "query"),
    ],
)
async def test_invalid_arguments_are_refused(api: Api, arguments: dict[str, Any], field: str) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice)
    assert await api.expect_refusal(alice, MEMBERS, id=workspace, **arguments) == Refusal("INVALID_INPUT", field)


async def test_pages_of_a_large_workspace_are_read_from_an_index(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice)
    users = await api.create_many_users("large", 150)
    await add_members(api, workspace, *users)
    assert await member_ids(api, alice, workspace, 100) == [alice, *users]
    assert await member_ids(api, alice, workspace, 7, query="large.00") == users[:100]
    bounds = {"_id": {"$gte": f"{workspace} ", "$lt": f"{workspace}!"}, "w": workspace, "sn": {"$gt": "large 0"}}
    for wanted, index in ((bounds, {"w": 1, "sn": 1}), (bounds | {"k": "lar"}, {"w": 1, "k": 1, "sn": 1})):
        find = {"find": "workspace_members", "filter": wanted, "sort": {"sn": 1}, "limit": 11, "hint": index}
        plan = api.database.command({"explain": find, "verbosity": "executionStats"})
        assert plan["executionStats"]["totalDocsExamined"] <= 11
        assert "'stage': 'SORT'" not in str(plan["queryPlanner"]["winningPlan"])
