"""A user who adds somebody who blocked them to a group gets no error, and the person is skipped."""

from __future__ import annotations

from resolvers.users.callers import CallerRole
from tests.api.blocks.calls import block, unblock
from tests.api.client import CREATE_GROUP, INVITE, Api, Refusal, make_caller
from tests.api.conftest import OpenApi
from tests.api.group_calls import GROUP_BY_ID


async def members(api: Api, viewer: str, group: str) -> set[str]:
    found = (await api.data(viewer, GROUP_BY_ID, id=group))["group"]
    listed = {edge["node"]["user"]["id"] for edge in found["members"]["edges"]}
    assert found["memberCount"] == len(listed)
    return listed


async def test_users_who_blocked_the_creator_are_left_out(api: Api, other_api: Api) -> None:
    alice, bob, carol, dan = await api.create_users("alice", "bob", "carol", "dan")
    await block(api, alice, bob)
    group = await other_api.create_group(bob, alice, carol, dan)
    assert await members(api, bob, group) == {bob, carol, dan}
    assert await api.session(alice, group) is None
    # The size is judged by the input, so that it does not tell.
    small = await api.create_group(bob, alice, carol)
    assert await members(api, bob, small) == {bob, carol}
    acting = make_caller(bob, CallerRole.SERVICE)
    made = (await api.data(acting, CREATE_GROUP, input={"name": "x", "memberIds": [alice, carol]}))["createGroup"]
    assert made["memberCount"] == 2
    # Others may add her, and she may add him.
    assert await members(api, carol, await api.create_group(carol, alice, bob)) == {alice, bob, carol}
    assert await members(api, alice, await api.create_group(alice, carol, bob)) == {alice, bob, carol}


async def test_users_who_blocked_the_inviter_are_skipped(api: Api, other_api: Api) -> None:
    alice, bob, carol, dan = await api.create_users("alice", "bob", "carol", "dan")
    group = await api.create_group(bob, carol, dan)
    (eve,) = await api.create_users("eve")
    await block(other_api, alice, bob)
    before = await api.history(bob, group)
    assert (await api.invite(bob, group, alice))["memberCount"] == 3
    assert await api.history(bob, group) == before
    assert (await other_api.invite(bob, group, alice, eve))["memberCount"] == 4
    joined = (await api.history(bob, group))[-1]
    assert [user["id"] for user in joined["systemEvent"]["targets"]] == [eve] and alice not in joined["content"]
    assert await members(api, bob, group) == {bob, carol, dan, eve}
    await api.invite(carol, group, alice)
    assert await members(api, bob, group) == {alice, bob, carol, dan, eve}
    await api.remove(bob, group, alice)
    await unblock(api, alice, bob)
    await api.invite(bob, group, alice)
    assert alice in await members(api, bob, group)


async def test_the_limit_of_a_group_does_not_tell_who_is_skipped(open_api: OpenApi) -> None:
    async with open_api("small groups", max_group_members=3) as api:
        alice, bob, carol, dan, eve = await api.create_users("alice", "bob", "carol", "dan", "eve")
        await block(api, alice, bob)
        group = await api.create_group(bob, carol, dan)
        for user in (alice, eve):
            assert await api.expect_refusal(bob, INVITE, id=group, users=[user]) == Refusal("GROUP_FULL", "userIds")
            full = {"name": "x", "memberIds": [user, carol, dan]}
            assert await api.expect_refusal(bob, CREATE_GROUP, input=full) == Refusal("GROUP_FULL", "memberIds")
        for user in (alice, eve):
            too_few = {"name": "x", "memberIds": [user]}
            assert await api.expect_refusal(bob, CREATE_GROUP, input=too_few) == Refusal("GROUP_TOO_SMALL", "memberIds")
