"""The list of workspaces that anyone may join."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.api.client import Api, Refusal
from tests.api.conftest import OpenApi
from tests.api.workspaces.calls import OPEN, add_members, create_workspace


@pytest.fixture
async def alone(open_api: OpenApi) -> AsyncIterator[Api]:
    """A process whose deployment has no other workspaces."""
    async with open_api("open") as api:
        yield api


async def listed(api: Api, user: str, page: int = 20, **arguments: Any) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        answer = (await api.data(user, OPEN, first=page, after=after, **arguments))["openWorkspaces"]
        found += [edge["node"]["name"] for edge in answer["edges"]]
        after = answer["pageInfo"]["endCursor"]
        if not answer["pageInfo"]["hasNextPage"]:
            return found


async def test_open_workspaces_are_listed_by_member_count_and_found_by_name(alone: Api) -> None:
    api = alone
    alice, bob, *others = await api.create_users("alice", "bob", "carol", "dave", "erin")
    names = {"Café Zürich": 3, "cafeteria": 1, "Board Games": 2, "A Café": 0, "Müller's Hideout": 4}
    for name, count in names.items():
        workspace = await create_workspace(api, alice, name, isOpen=True)
        await add_members(api, workspace, *[bob, *others][:count])
    await create_workspace(api, alice, "Café closed")
    by_count = sorted(names, key=lambda name: -names[name])
    for page in (1, 2, 20):
        assert await listed(api, bob, page) == by_count
        assert await listed(api, bob, page, query="CAFE") == ["Café Zürich", "cafeteria", "A Café"]
        assert await listed(api, bob, page, query="cafe zu") == ["Café Zürich"]
        assert await listed(api, bob, page, query="cafeter") == ["cafeteria"]
        assert await listed(api, bob, page, query="hideout") == ["Müller's Hideout"]
    assert await listed(api, bob, query="") == by_count
    assert await listed(api, bob, query="afe") == []
    plan = api.database.command(
        "explain", {"find": "workspaces", "filter": {"op": True}, "sort": {"mc": -1, "_id": 1}, "limit": 2}
    )
    assert "COLLSCAN" not in str(plan) and "'stage': 'SORT'" not in str(plan)


async def test_an_open_workspace_that_an_older_server_named_is_found_after_the_next_pass(alone: Api) -> None:
    api = alone
    (alice,) = await api.create_users("alice")
    workspaces = api.services.app.store.workspaces
    for name in ("Xärten", "Xassen"):
        await create_workspace(api, alice, name, isOpen=True)
    await create_workspace(api, alice, "Xaragen")
    api.database.workspaces.update_one({"name": "Xärten"}, {"$set": {"sn": "xärten", "k": ["x", "xä"]}})
    assert await listed(api, alice, query="xa") == ["Xassen"]
    assert await workspaces.refresh_search_fields() == 1
    assert await workspaces.refresh_search_fields() == 0
    assert sorted(await listed(api, alice, query="xa")) == ["Xassen", "Xärten"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"first": 0}, "first"),
        ({"first": 101}, "first"),
        ({"after": "x"}, "after"),
        ({"after": "dwox"}, "after"),
        ({"query": "q" * 101}, "query"),
    ],
)
async def test_invalid_arguments_are_refused(api: Api, arguments: dict[str, Any], field: str) -> None:
    (alice,) = await api.create_users("alice")
    assert await api.expect_refusal(alice, OPEN, **arguments) == Refusal("INVALID_INPUT", field)
    assert await api.expect_refusal(None, OPEN) == Refusal("UNAUTHENTICATED")
