"""Whose group it is, and what members are in it."""

from __future__ import annotations

import pytest

from tests.api.client import LIVE_SESSIONS, Api, Json, Refusal
from tests.api.conftest import Deployments
from tests.api.group_calls import DISMISS, LEAVE, REMOVE, SET_ROLE, TRANSFER, UPDATE_GROUP
from tests.api.state_snapshot import take_snapshot


async def three(api: Api) -> tuple[str, str, str, str]:
    """Alice's group with two members."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    return alice, bob, carol, await api.create_group(alice, bob, carol)


async def test_a_group_that_is_given_away_is_the_other_s_and_one_is_a_member(api: Api, other_api: Api) -> None:
    alice, bob, carol, group = await three(api)
    shown = await api.transfer(alice, group, bob)
    assert (shown["owner"], shown["viewerRole"], shown["memberCount"]) == ({"id": bob}, "MEMBER", 3)
    assert shown == await api.group(alice, group)
    for process in (api, other_api):
        for user, role in ((alice, "MEMBER"), (bob, "OWNER"), (carol, "MEMBER")):
            seen = await process.own_group(user, group)
            assert (seen["owner"], seen["viewerRole"]) == ({"id": bob}, role)
            assert await process.roles(user, group) == {alice: "MEMBER", bob: "OWNER", carol: "MEMBER"}


async def test_what_only_the_owner_may_is_the_new_one_s_from_then_on(api: Api, other_api: Api) -> None:
    alice, bob, carol, group = await three(api)
    await api.transfer(alice, group, bob)
    watching = await take_snapshot(other_api, group, alice, bob, carol)
    for query, more in (
        (DISMISS, {}),
        (UPDATE_GROUP, {"input": {"name": "Mine"}}),
        (TRANSFER, {"user": carol}),
        (SET_ROLE, {"user": carol, "role": "ADMIN"}),
        (REMOVE, {"user": carol}),
        (REMOVE, {"user": bob}),
    ):
        assert (await other_api.expect_refusal(alice, query, id=group, **more)).code == "FORBIDDEN"
    assert (await other_api.expect_refusal(bob, LEAVE, id=group)).code == "OWNER_CANNOT_LEAVE"
    await watching.assert_unchanged()
    await other_api.set_role(bob, group, carol, "ADMIN")
    await other_api.leave(alice, group)
    assert await other_api.roles(bob, group) == {bob: "OWNER", carol: "ADMIN"}


async def test_one_system_message_tells_of_it_and_no_session_changes_otherwise(api: Api) -> None:
    alice, bob, carol, group = await three(api)
    live = [await api.listen(user) for user in (alice, bob, carol)]
    synced = [await api.listen(user, LIVE_SESSIONS) for user in (alice, bob, carol)]
    await api.transfer(alice, group, bob)
    (told,) = await api.history(carol, group)
    assert (told["contentType"], told["sender"]["id"], told["mentions"]) == ("SYSTEM", alice, [{"id": bob}])
    for device in live:
        assert (await device.next())["message"] == told
        await device.expect_no_event(0.02)
    for device in synced:
        await device.expect_no_event(0.02)
    for user in (alice, bob, carol):
        session = await api.own_session(user, group)
        assert (session["writeSeq"], session["unreadCount"], session["unreadMentionCount"]) == (1, 0, 0)


async def test_an_admin_who_becomes_owner_and_gives_it_back_is_a_member(api: Api) -> None:
    alice, bob, carol, group = await three(api)
    await api.set_role(alice, group, bob, "ADMIN")
    await api.transfer(alice, group, bob)
    await api.transfer(bob, group, alice)
    assert await api.roles(carol, group) == {alice: "OWNER", bob: "MEMBER", carol: "MEMBER"}


async def test_who_owns_it_is_who_did_after_a_loss(api: Api, deployments: Deployments) -> None:
    alice, bob, carol, group = await three(api)
    await api.transfer(alice, group, bob)
    await api.set_role(bob, group, carol, "ADMIN")
    await api.wait_until_idle()
    seen = [await api.group(user, group) for user in (alice, bob, carol)]
    deployments.flush_redis("main")
    again = [await api.group(user, group) for user in (alice, bob, carol)]
    for shown in (*seen, *again):
        assert shown is not None
        del shown["session"]["activeTs"]
    assert again == seen
    assert (await api.expect_refusal(alice, DISMISS, id=group)).code == "FORBIDDEN"
    assert (await api.update_group(carol, group, name="Carol's"))["name"] == "Carol's"


# --- admins


async def test_an_admin_is_made_and_unmade_without_a_word_to_anybody(api: Api) -> None:
    alice, bob, carol, group = await three(api)
    devices = [await api.listen(user, *of) for user in (alice, bob, carol) for of in ((), (LIVE_SESSIONS,))]
    sessions = [await api.own_session(user, group) for user in (alice, bob, carol)]
    for role in ("ADMIN", "MEMBER"):
        shown = await api.set_role(alice, group, bob, role)
        assert shown == await api.group(alice, group)
        for user in (alice, bob, carol):
            assert await api.roles(user, group) == {alice: "OWNER", bob: role, carol: "MEMBER"}
        assert (await api.own_group(bob, group))["viewerRole"] == role
    assert await api.history(alice, group) == []
    assert [await api.own_session(user, group) for user in (alice, bob, carol)] == sessions
    for device in devices:
        await device.expect_no_event(0.02)


async def test_a_role_that_one_has_changes_nothing(api: Api) -> None:
    alice, bob, carol, group = await three(api)
    await api.set_role(alice, group, bob, "ADMIN")
    watching = await take_snapshot(api, group, alice, bob, carol)
    for user, role in ((bob, "ADMIN"), (carol, "MEMBER")):
        shown = await api.set_role(alice, group, user, role)
        assert shown == await api.group(alice, group)
    await watching.assert_unchanged()


async def test_an_admin_s_rights_come_and_go_with_the_role(api: Api, other_api: Api) -> None:
    alice, bob, carol, group = await three(api)
    (dave,) = await api.create_users("dave")
    await api.invite(alice, group, dave)

    async def everything_refused() -> None:
        watching = await take_snapshot(other_api, group, alice, bob, carol, dave)
        renaming = {"input": {"name": "Bob's"}}
        assert (await other_api.expect_refusal(bob, UPDATE_GROUP, id=group, **renaming)).code == "FORBIDDEN"
        assert (await other_api.expect_refusal(bob, REMOVE, id=group, user=carol)).code == "FORBIDDEN"
        assert (await other_api.expect_send_refusal(bob, group, mentionAll=True)).code == "FORBIDDEN"
        await watching.assert_unchanged()

    await everything_refused()
    await api.set_role(alice, group, bob, "ADMIN")
    await other_api.update_group(bob, group, name="With bob")
    await other_api.remove(bob, group, carol)
    assert (await other_api.send(bob, group, mentionAll=True))["message"]["mentionsAll"] is True
    await api.set_role(alice, group, bob, "MEMBER")
    await everything_refused()


async def test_admins_do_not_touch_each_other_nor_the_owner(api: Api) -> None:
    alice, bob, carol, group = await three(api)
    for user in (bob, carol):
        await api.set_role(alice, group, user, "ADMIN")
    watching = await take_snapshot(api, group, alice, bob, carol)
    for user in (alice, carol):
        assert (await api.expect_refusal(bob, REMOVE, id=group, user=user)).code == "FORBIDDEN"
    await watching.assert_unchanged()
    await api.set_role(alice, group, carol, "MEMBER")
    await api.remove(bob, group, carol)
    assert await api.roles(alice, group) == {alice: "OWNER", bob: "ADMIN"}


@pytest.mark.parametrize("role", ["admin", "", "KING", None])
async def test_what_is_no_role_is_refused(api: Api, role: str | None) -> None:
    alice, bob, _, group = await three(api)
    stored = await api.stored_documents()
    refusal = await api.expect_refusal(alice, SET_ROLE, id=group, user=bob, role=role)
    assert refusal.code == "INVALID_INPUT"
    assert await api.stored_documents() == stored


async def test_ids_are_compared_as_they_are(api: Api) -> None:
    alice, bob, carol, group = await three(api)
    watching = await take_snapshot(api, group, alice, bob, carol)
    for wrong in (bob.upper(), f"{bob} ", f" {bob}", bob[:-1], "", "\x00", f"{bob}\x00", "\ud800", group):
        for query, more in ((TRANSFER, {}), (REMOVE, {}), (SET_ROLE, {"role": "ADMIN"})):
            calls: Json = {"id": group, "user": wrong} | more
            assert await api.expect_refusal(alice, query, **calls) == Refusal("NOT_A_MEMBER", "userId"), ascii(wrong)
    await watching.assert_unchanged()
