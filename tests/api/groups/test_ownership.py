"""transferOwner and setMemberRole: who owns a group, and the roles of its members."""

from __future__ import annotations

import pytest

from tests.api.client import LIVE_SESSIONS, Api, Json, Refusal
from tests.api.conftest import Deployments
from tests.api.group_calls import DISMISS, LEAVE, REMOVE, SET_ROLE, TRANSFER, UPDATE_GROUP
from tests.api.state_snapshot import take_snapshot


async def create_group_of_three(api: Api) -> tuple[str, str, str, str]:
    """Create alice's group with two members."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    return alice, bob, carol, await api.create_group(alice, bob, carol)


async def test_a_transfer_makes_the_old_owner_a_member(api: Api, other_api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    returned_group = await api.transfer(alice, group, bob)
    assert (returned_group["owner"], returned_group["viewerRole"], returned_group["memberCount"]) == (
        {"id": bob},
        "MEMBER",
        3,
    )
    assert returned_group == await api.group(alice, group)
    for process in (api, other_api):
        for user, role in ((alice, "MEMBER"), (bob, "OWNER"), (carol, "MEMBER")):
            before = await process.own_group(user, group)
            assert (before["owner"], before["viewerRole"]) == ({"id": bob}, role)
            assert await process.roles(user, group) == {alice: "MEMBER", bob: "OWNER", carol: "MEMBER"}


async def test_owner_rights_pass_to_the_new_owner_at_once(api: Api, other_api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    await api.transfer(alice, group, bob)
    snapshot = await take_snapshot(other_api, group, alice, bob, carol)
    for query, arguments in (
        (DISMISS, {}),
        (UPDATE_GROUP, {"input": {"name": "Mine"}}),
        (TRANSFER, {"user": carol}),
        (SET_ROLE, {"user": carol, "role": "ADMIN"}),
        (REMOVE, {"user": carol}),
        (REMOVE, {"user": bob}),
    ):
        assert (await other_api.expect_refusal(alice, query, id=group, **arguments)).code == "FORBIDDEN"
    assert (await other_api.expect_refusal(bob, LEAVE, id=group)).code == "OWNER_CANNOT_LEAVE"
    await snapshot.assert_unchanged()
    await other_api.set_role(bob, group, carol, "ADMIN")
    await other_api.leave(alice, group)
    assert await other_api.roles(bob, group) == {bob: "OWNER", carol: "ADMIN"}


async def test_a_transfer_is_announced_by_one_system_message(api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    message_listeners = [await api.listen(user) for user in (alice, bob, carol)]
    session_listeners = [await api.listen(user, LIVE_SESSIONS) for user in (alice, bob, carol)]
    await api.transfer(alice, group, bob)
    (system_message,) = await api.history(carol, group)
    assert (system_message["contentType"], system_message["sender"]["id"], system_message["mentions"]) == (
        "SYSTEM",
        alice,
        [{"id": bob}],
    )
    for device in message_listeners:
        assert (await device.next())["message"] == system_message
        assert (await device.next())["group"]["owner"] == {"id": bob}
        await device.expect_no_event(0.02)
    for device in session_listeners:
        await device.expect_no_event(0.02)
    for user in (alice, bob, carol):
        session = await api.own_session(user, group)
        assert (session["writeSeq"], session["unreadCount"], session["unreadMentionCount"]) == (1, 0, 0)


async def test_an_admin_who_was_owner_in_between_is_a_member(api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    await api.set_role(alice, group, bob, "ADMIN")
    await api.transfer(alice, group, bob)
    await api.transfer(bob, group, alice)
    assert await api.roles(carol, group) == {alice: "OWNER", bob: "MEMBER", carol: "MEMBER"}


async def test_ownership_and_roles_survive_the_loss_of_the_cache(api: Api, deployments: Deployments) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    await api.transfer(alice, group, bob)
    await api.set_role(bob, group, carol, "ADMIN")
    await api.wait_until_idle()
    before = [await api.group(user, group) for user in (alice, bob, carol)]
    deployments.flush_redis("main")
    after = [await api.group(user, group) for user in (alice, bob, carol)]
    for returned_group in (*before, *after):
        assert returned_group is not None
        del returned_group["session"]["activeTs"]
    assert after == before
    assert (await api.expect_refusal(alice, DISMISS, id=group)).code == "FORBIDDEN"
    assert (await api.update_group(carol, group, name="Carol's"))["name"] == "Carol's"


async def test_role_changes_send_no_message_and_no_session_change(api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    devices = [await api.listen(user, LIVE_SESSIONS) for user in (alice, bob, carol)]
    sessions = {user: await api.own_session(user, group) for user in (alice, bob, carol)}
    for role in ("ADMIN", "MEMBER"):
        returned_group = await api.set_role(alice, group, bob, role)
        assert returned_group == await api.group(alice, group)
        for user in (alice, bob, carol):
            assert await api.roles(user, group) == {alice: "OWNER", bob: role, carol: "MEMBER"}
        assert (await api.own_group(bob, group))["viewerRole"] == role
    assert await api.history(alice, group) == []
    for user, before in sessions.items():
        after = await api.own_session(user, group)
        assert after == before | {"activeTs": after["activeTs"]}
    for device in devices:
        await device.expect_no_event(0.02)


async def test_setting_the_same_role_changes_nothing(api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    await api.set_role(alice, group, bob, "ADMIN")
    snapshot = await take_snapshot(api, group, alice, bob, carol)
    for user, role in ((bob, "ADMIN"), (carol, "MEMBER")):
        returned_group = await api.set_role(alice, group, user, role)
        assert returned_group == await api.group(alice, group)
    await snapshot.assert_unchanged()


async def test_admin_rights_follow_the_role_at_once(api: Api, other_api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    (dave,) = await api.create_users("dave")
    await api.invite(alice, group, dave)

    async def expect_no_admin_rights() -> None:
        snapshot = await take_snapshot(other_api, group, alice, bob, carol, dave)
        arguments = {"input": {"name": "Bob's"}}
        assert (await other_api.expect_refusal(bob, UPDATE_GROUP, id=group, **arguments)).code == "FORBIDDEN"
        assert (await other_api.expect_refusal(bob, REMOVE, id=group, user=carol)).code == "FORBIDDEN"
        assert (await other_api.expect_send_refusal(bob, group, mentionAll=True)).code == "FORBIDDEN"
        await snapshot.assert_unchanged()

    await expect_no_admin_rights()
    await api.set_role(alice, group, bob, "ADMIN")
    await other_api.update_group(bob, group, name="With bob")
    await other_api.remove(bob, group, carol)
    assert (await other_api.send(bob, group, mentionAll=True))["message"]["mentionsAll"] is True
    await api.set_role(alice, group, bob, "MEMBER")
    await expect_no_admin_rights()


async def test_admins_cannot_remove_admins_or_the_owner(api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    for user in (bob, carol):
        await api.set_role(alice, group, user, "ADMIN")
    snapshot = await take_snapshot(api, group, alice, bob, carol)
    for user in (alice, carol):
        assert (await api.expect_refusal(bob, REMOVE, id=group, user=user)).code == "FORBIDDEN"
    await snapshot.assert_unchanged()
    await api.set_role(alice, group, carol, "MEMBER")
    await api.remove(bob, group, carol)
    assert await api.roles(alice, group) == {alice: "OWNER", bob: "ADMIN"}


@pytest.mark.parametrize("role", ["admin", "", "KING", None])
async def test_an_invalid_role_is_refused(api: Api, role: str | None) -> None:
    alice, bob, _, group = await create_group_of_three(api)
    stored = await api.stored_hashes()
    refusal = await api.expect_refusal(alice, SET_ROLE, id=group, user=bob, role=role)
    assert refusal.code == "INVALID_INPUT"
    assert await api.stored_hashes() == stored


async def test_user_ids_are_compared_exactly(api: Api) -> None:
    alice, bob, carol, group = await create_group_of_three(api)
    snapshot = await take_snapshot(api, group, alice, bob, carol)
    for invalid_id in (bob.upper(), f"{bob} ", f" {bob}", bob[:-1], "", "\x00", f"{bob}\x00", "\ud800", group):
        for query, arguments in ((TRANSFER, {}), (REMOVE, {}), (SET_ROLE, {"role": "ADMIN"})):
            variables: Json = {"id": group, "user": invalid_id} | arguments
            assert await api.expect_refusal(alice, query, **variables) == Refusal("NOT_A_MEMBER", "userId"), ascii(
                invalid_id
            )
    await snapshot.assert_unchanged()
