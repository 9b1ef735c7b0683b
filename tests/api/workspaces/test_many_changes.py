"""Many changes of one workspace at once, on two servers: each is made, and all are complete afterwards.

`CONFAB_TEST_CONCURRENT_CHANGES` sets their number.
"""

from __future__ import annotations

import os

from tests.api.client import Api, gather_all, wait_until
from tests.api.workspaces.calls import (
    LEAVE,
    SET_NICKNAME,
    add_members,
    create_workspace,
    expect_right_counts,
    list_members,
    member_ids,
)
from tests.api.workspaces.role_calls import SET_ROLES, add_channel, create_role

COUNT = int(os.environ.get("CONFAB_TEST_CONCURRENT_CHANGES", "8"))


async def expect_complete(*servers: Api) -> None:
    """Fail unless nothing is pending."""

    async def is_complete() -> bool:
        return servers[0].database["workspaces"].count_documents({"pn.0": {"$exists": True}}) == 0

    await wait_until(is_complete)


async def test_many_members_leave_at_once(api: Api, other_api: Api) -> None:
    alice, *people = await api.create_users("alice", *(f"p{number}" for number in range(COUNT)))
    workspace = await create_workspace(api, alice)
    await add_channel(api, workspace)
    await add_members(api, workspace, *people)
    servers = (api, other_api)
    answers = await gather_all(
        *(servers[number % 2].run(user, LEAVE, id=workspace) for number, user in enumerate(people))
    )
    assert [answer for answer in answers if "errors" in answer] == []
    assert await member_ids(api, alice, workspace) == [alice]
    expect_right_counts(api, workspace)
    await expect_complete(*servers)


async def test_many_names_and_roles_change_at_once(api: Api, other_api: Api) -> None:
    alice, *people = await api.create_users("alice", *(f"q{number}" for number in range(COUNT // 2)))
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, *people)
    role = await create_role(api, alice, workspace, "guide")
    servers = (api, other_api)
    calls = []
    for number, user in enumerate(people):
        one, other = servers[number % 2], servers[(number + 1) % 2]
        calls.append(one.run(user, SET_NICKNAME, id=workspace, nickname=f"Nick {number}"))
        calls.append(other.run(alice, SET_ROLES, id=workspace, user=user, roles=[role]))
    answers = await gather_all(*calls)
    assert [answer for answer in answers if "errors" in answer] == []
    members = {m["user"]["id"]: m["nickname"] for m in await list_members(api, alice, workspace, role=role)}
    assert members == {user: f"Nick {number}" for number, user in enumerate(people)}
    await expect_complete(*servers)
