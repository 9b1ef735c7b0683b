"""GroupChanged: every member learns of new names, pictures, metadata, roles and visibility, once and in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json, Refusal
from tests.api.conftest import Deployments, HeldLargeGroupQueue
from tests.api.events import current_cursor, read_missed_events
from tests.api.group_calls import UPDATE_GROUP
from tests.api.state_snapshot import take_snapshot

AVATAR = "https://example.org/a.png"

Change = Callable[[Api, str, str, str], Awaitable[Any]]
"""Changes a group. Takes its owner, another member, and the group."""

SILENT: dict[str, Change] = {
    "picture": lambda api, owner, _, group: api.update_group(owner, group, avatarUrl=AVATAR),
    "metadata": lambda api, owner, _, group: api.update_group(owner, group, metadata={"topic": ["a"]}),
    "visibility": lambda api, owner, _, group: api.update_group(owner, group, historyVisibility="FULL"),
    "role": lambda api, owner, member, group: api.set_role(owner, group, member, "ADMIN"),
}
ANNOUNCED: dict[str, Change] = {
    "name": lambda api, owner, _, group: api.update_group(owner, group, name="New", avatarUrl=AVATAR),
    "owner": lambda api, owner, member, group: api.transfer(owner, group, member),
}
CHANGES = SILENT | ANNOUNCED
"""All changes. The owner's transfer is the last one, because the first owner makes the others."""


def shown(group: Json) -> Json:
    """Return the fields of a group that the event shows."""
    names = ["id", "name", "title", "avatarUrl", "metadata", "memberCount", "historyVisibility", "status", "owner"]
    return {name: group[name] for name in names}


async def changed_sessions(api: Api, user: str, since: str) -> list[Json]:
    sessions: list[Json] = (await api.data(user, SYNC, since=since))["syncSessions"]["sessions"]
    return sessions


async def test_every_member_gets_the_whole_group_live_and_after_a_reconnect(api: Api, other_api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    await api.send(bob, group, "before")
    await api.leave(dave, group)
    await api.wait_until_idle()
    members = (alice, bob, carol)
    live = {user: [await api.listen(user), await other_api.listen(user)] for user in members}
    of_sessions = [await api.listen(user, LIVE_SESSIONS) for user in (*members, dave)]
    left, left_at = await api.listen(dave), await current_cursor(api, dave)
    for name, change in CHANGES.items():
        since = {user: await current_cursor(api, user) for user in members}
        before = {user: await api.session(user, group) for user in members}
        await change(api, alice, bob, group)
        await api.wait_until_idle()
        expected = ["GroupChanged"] if name in SILENT else ["MessageCreated", "GroupChanged"]
        for user, listeners in live.items():
            missed = await read_missed_events(other_api, user, since[user])
            assert [event["__typename"] for event in missed] == expected, name
            assert missed[-1]["group"] == shown(await api.group(user, group))
            for listener in listeners:
                assert await listener.take(len(missed)) == missed
            (session,) = await changed_sessions(api, user, since[user])
            assert session == await api.session(user, group)
            assert session["activeTs"] > before[user]["activeTs"]
            same = ("writeTs", "unreadCount", "readSeq") if name in SILENT else ("writeTs", "unreadCount")
            assert [session[field] for field in same] == [before[user][field] for field in same]
        for event, rest in ((missed[i], missed[i + 1 :]) for i in range(len(missed))):
            assert await read_missed_events(api, carol, event["cursor"]) == rest
    assert await read_missed_events(api, dave, left_at) == await changed_sessions(api, dave, left_at) == []
    await left.expect_no_event(0.03)
    for listener in (*of_sessions, *(each for both in live.values() for each in both)):
        assert listener.pop_events() == []


async def test_a_lost_cache_moves_no_clock_back(api: Api, deployments: Deployments) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    for name, change in CHANGES.items():
        await change(api, alice, bob, group)
        await api.wait_until_idle()
        before = {user: await api.session(user, group) for user in (alice, bob, carol)}
        returned = await api.group(alice, group)
        deployments.flush_redis("main")
        for user, session in before.items():
            again = await api.session(user, group)
            assert again["activeTs"] >= session["activeTs"], name
            assert again | {"activeTs": session["activeTs"]} == session
        without_clock = (await api.group(alice, group)) | {"session": None}
        assert without_clock == returned | {"session": None}


async def test_nothing_is_sent_if_nothing_changes(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    same = {"name": "Same", "avatarUrl": AVATAR, "metadata": {"b": 1, "a": [2]}}
    group = await api.create_group(alice, bob, carol, **same)
    snapshot = await take_snapshot(api, group, alice, bob, carol)
    for fields in (same, {"metadata": {"a": [2], "b": 1}}, {"metadata": None}, {}):
        assert (await api.update_group(alice, group, **fields))["metadata"] == same["metadata"]
    await api.set_role(alice, group, bob, "MEMBER")
    await snapshot.assert_unchanged()


async def test_joining_and_leaving_send_no_event_of_the_group(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    listener = await api.listen(alice)
    await api.invite(alice, group, dave)
    await api.leave(carol, group)
    await api.remove(alice, group, bob)
    assert [event["__typename"] for event in await listener.take(3)] == ["MessageCreated"] * 3
    await api.dismiss(alice, group)
    await listener.expect_no_event(0.03)


async def test_several_changes_are_replayed_as_the_newest_state(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    other = await api.create_group(alice, bob, carol, metadata=[1])
    since = await current_cursor(api, carol)
    for number in range(3):
        await api.update_group(alice, group, metadata={"n": number})
        await api.send(bob, group, f"{number}")
    await api.update_group(alice, other, metadata={"n": "other"})
    await api.update_group(alice, group, avatarUrl=AVATAR)
    await api.wait_until_idle()
    missed = await read_missed_events(api, carol, since)
    assert [event["__typename"] for event in missed] == ["MessageCreated"] * 3 + ["GroupChanged"] * 2
    assert [event["group"]["metadata"] for event in missed[3:]] == [{"n": "other"}, {"n": 2}]
    for number, event in enumerate(missed):
        assert await read_missed_events(api, carol, event["cursor"]) == missed[number + 1 :]
    await api.dismiss(alice, group)
    await api.wait_until_idle()
    groups = [event for event in await read_missed_events(api, carol, since) if event["__typename"] == "GroupChanged"]
    assert [event["group"]["id"] for event in groups] == [other]


async def test_a_subscriber_of_one_conversation_gets_only_its_group(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group, other = [await api.create_group(alice, bob, carol) for _ in range(2)]
    listener = await api.listen(bob, id=group)
    await api.update_group(alice, other, metadata=1)
    await api.update_group(alice, group, metadata=2)
    assert (await listener.next())["group"]["metadata"] == 2


async def test_all_members_of_a_large_group_are_notified(api: Api, held_queue: HeldLargeGroupQueue) -> None:
    (prefix,) = await api.create_users("crowd")
    users = await api.create_many_users(prefix, 205)
    group = await api.create_group(*users)
    await api.wait_until_idle()
    listeners = [await api.listen(user) for user in (users[0], users[-1])]
    cursor = await current_cursor(api, users[-1])
    await api.update_group(users[0], group, name="First", metadata=1)
    await api.update_group(users[0], group, metadata=2)
    await api.set_role(users[0], group, users[1], "ADMIN")
    await listeners[1].expect_no_event(0.03)
    held_queue.release()
    for listener in listeners:
        events = await listener.take(4)
        assert [event["__typename"] for event in events] == ["MessageCreated"] + ["GroupChanged"] * 3
        # An event may show a later state, never an earlier one.
        assert [event["group"]["metadata"] for event in events[2:]] == [2, 2]
        await listener.expect_no_event(0.03)
    await api.wait_until_idle()
    assert len(await read_missed_events(api, users[-1], cursor)) == 2


async def test_metadata_beyond_the_limits_is_refused_and_changes_nothing(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    snapshot = await take_snapshot(api, group, alice, bob, carol)
    create = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }"
    values: tuple[Any, ...] = ("x" * 8191, [[[[[[[[[0]]]]]]]]], ["\ud800"])
    for value in values:
        fields = {"name": "Other", "metadata": value}
        refusal = await api.expect_refusal(alice, UPDATE_GROUP, id=group, input=fields)
        assert refusal == Refusal("INVALID_INPUT", "metadata")
        refusal = await api.expect_refusal(alice, create, input=fields | {"memberIds": [bob, carol]})
        assert refusal == Refusal("INVALID_INPUT", "metadata")
    await snapshot.assert_unchanged()


async def test_metadata_is_kept_until_it_is_replaced_or_emptied(
    api: Api, other_api: Api, deployments: Deployments
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    odd: Json = {"$set": {"a.b": ["/", "\u0000", 1.5]}, "": None, "long": 2**63}
    group = await api.create_group(alice, bob, carol, metadata=odd)
    for lost in (False, True):
        if lost:
            await api.wait_until_idle()
            deployments.flush_redis("main")
        for reader in (api, other_api):
            assert (await reader.group(bob, group))["metadata"] == odd
    assert (await api.update_group(alice, group, name="Other", metadata=None))["metadata"] == odd
    assert (await api.update_group(alice, group, metadata={}))["metadata"] == {}
    assert (await api.group(carol, group))["metadata"] == {}
