"""Group changes that a dying server left unfinished: another server finishes them once, whatever changed since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from store.base.ids import ConversationId
from store.redis.cache import Call
from tests.api.client import LIVE_SESSIONS, TIMEOUT_SECONDS, Api
from tests.api.conftest import Deployments, OpenApi
from tests.api.events import current_cursor, read_missed_events
from tests.api.paused_step import PausedStep
from tests.api.revisions import ALL_PARTITIONS


async def evict_conversation(api: Api, group: str) -> None:
    head, members, *_ = api.services.app.store.keys.conversation(ConversationId(group))
    await api.services.app.store.cache.one(Call("DEL", (head, members)))


async def stop_before(dying: Api, monkeypatch: pytest.MonkeyPatch, step: str) -> asyncio.Event:
    """Stop the server before a step of its delivery."""
    reached = asyncio.Event()

    async def stop(*_: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    await dying.services.housekeeper.close()
    monkeypatch.setattr(dying.services.app.delivery.fanout_stage, step, stop)
    return reached


@asynccontextmanager
async def open_two_servers(open_api: OpenApi) -> AsyncIterator[tuple[Api, Api]]:
    """Two servers of one deployment. Neither finishes the work of others by itself."""
    async with open_api("takeover") as surviving, open_api("takeover") as dying:
        await surviving.services.housekeeper.close()
        await dying.services.housekeeper.close()
        yield surviving, dying


async def test_a_dead_servers_invitation_is_finished_after_a_later_change(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("takeover") as surviving, open_api("takeover") as dying:
        await surviving.services.housekeeper.close()
        alice, bob, carol, dave = await surviving.create_users("alice", "bob", "carol", "dave")
        group = await surviving.create_group(alice, bob, carol)
        since = await current_cursor(surviving, bob)
        device = await surviving.listen(dave, LIVE_SESSIONS)
        reached = await stop_before(dying, monkeypatch, "_fan_out")
        invitation = asyncio.create_task(dying.invite(alice, group, dave))
        await asyncio.wait_for(reached.wait(), TIMEOUT_SECONDS)
        # Forget the cached state that would make the next change wait for this one.
        await evict_conversation(surviving, group)
        await surviving.set_role(alice, group, carol, "ADMIN")
        assert await surviving.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
        event = await device.next()
        # The later change found no session in the cached state of the new member, who therefore gets everything again.
        assert (event["reason"], [s["conversation"]["id"] for s in event["sessions"]]) == ("CATCH_UP", [group])
        await device.expect_no_event(0.05)
        changed, created = await read_missed_events(surviving, bob, since)
        assert changed["group"]["memberCount"] == 4
        assert created["message"]["content"] == f"{alice} added {dave}"
        assert await surviving.my_groups(dave) == [group]
        await surviving.wait_until_idle()
        assert await surviving.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 0
        invitation.cancel()
        dying.services.app.delivery.in_flight._by_id.clear()


@pytest.mark.parametrize("dismissed", [False, True], ids=["removed", "dismissed"])
async def test_a_dead_servers_removal_reaches_the_removed_member(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch, dismissed: bool
) -> None:
    async with open_two_servers(open_api) as (surviving, dying):
        alice, bob, carol = await surviving.create_users("alice", "bob", "carol")
        group = await surviving.create_group(alice, bob, carol)
        await surviving.wait_until_idle()
        device = await surviving.listen(bob, LIVE_SESSIONS)
        monkeypatch.setattr(dying.services.app.bus, "send", lambda *_: None)
        await (dying.dismiss(alice, group) if dismissed else dying.remove(alice, group, bob))
        await device.expect_no_event(0.1)
        assert await surviving.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
        event = await device.next()
        assert event["reason"] == ("DELETE" if dismissed else "MEMBERSHIP")
        await device.expect_no_event(0.05)


async def test_a_message_overtaking_an_invitation_is_unread_for_the_new_member(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.total_unread(dave)
    delivery = api.services.app.delivery
    commit = delivery.commit_stage._commit_change

    async def commit_and_evict(message: Any) -> None:
        await commit(message)
        await evict_conversation(api, group)

    monkeypatch.setattr(delivery.commit_stage, "_commit_change", commit_and_evict)
    paused = PausedStep(delivery.commit_stage, "_commit_change", monkeypatch)
    invitation = asyncio.create_task(api.invite(alice, group, dave))
    await paused.reached.wait()
    await api.send(bob, group, "hello, Dave")
    await api.total_unread(dave)
    fan_out = delivery.fanout_stage._fan_out

    async def evict_and_fan_out(batch: Any) -> None:
        await evict_conversation(api, group)
        await fan_out(batch)

    monkeypatch.setattr(delivery.fanout_stage, "_fan_out", evict_and_fan_out)
    paused.resume.set()
    await invitation
    await api.wait_until_idle()
    session = await api.own_session(dave, group)
    assert (session["writeSeq"], session["unreadCount"]) == (2, 1)


async def test_a_joining_member_can_write_and_be_mentioned_once_joined(
    api: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    paused = PausedStep(api.services.app.delivery.commit_stage, "_commit_change", monkeypatch)
    invitation = asyncio.create_task(api.invite(alice, group, dave))
    await paused.reached.wait()
    await api.send(bob, group, "to the members")
    sends = [
        asyncio.create_task(api.send(bob, group, "to Dave", mentions=[dave])),
        asyncio.create_task(api.send(dave, group, "from Dave")),
    ]
    await asyncio.sleep(0.1)
    assert not any(task.done() for task in sends)
    paused.resume.set()
    await invitation
    await sends[0]
    own_seq = (await sends[1])["message"]["seq"]
    await api.wait_until_idle()
    cached_session = await api.own_session(dave, group)
    assert (cached_session["readSeq"], cached_session["unreadCount"]) in {(own_seq, 0), (own_seq, 1)}
    deployments.evict_user_state("main", dave)
    assert await api.own_session(dave, group) == cached_session | {
        "activeTs": (await api.own_session(dave, group))["activeTs"]
    }


async def test_a_removal_finished_late_does_not_end_a_new_membership(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_two_servers(open_api) as (surviving, dying):
        alice, bob, carol = await surviving.create_users("alice", "bob", "carol")
        group = await surviving.create_group(alice, bob, carol)
        await surviving.wait_until_idle()
        await surviving.total_unread(bob)
        monkeypatch.setattr(dying.services.app.bus, "send", lambda *_: None)
        await dying.remove(alice, group, bob)
        await surviving.invite(alice, group, bob)
        await surviving.wait_until_idle()
        assert await surviving.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
        await surviving.wait_until_idle()
        device = await surviving.listen(bob)
        await surviving.send(carol, group, "welcome back")
        assert (await device.next())["message"]["content"] == "welcome back"
        session = await surviving.own_session(bob, group)
        assert (session["writeSeq"], session["unreadCount"]) == (3, 1)


async def test_an_invitation_finished_late_keeps_later_changes(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_two_servers(open_api) as (surviving, dying):
        alice, bob, carol, dave = await surviving.create_users("alice", "bob", "carol", "dave")
        group = await surviving.create_group(alice, bob, carol)
        await surviving.wait_until_idle()
        await surviving.total_unread(dave)
        monkeypatch.setattr(dying.services.app.bus, "send", lambda *_: None)
        await dying.invite(alice, group, dave)
        await surviving.delete(dave, group)
        await surviving.wait_until_idle()
        before = await surviving.own_session(dave, group)
        assert before["status"] == "INVALID"
        assert await surviving.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
        await surviving.wait_until_idle()
        assert await surviving.own_session(dave, group) == before


async def test_a_change_refused_by_mongodb_is_decided_again(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("ahead") as api:
        await api.services.housekeeper.close()
        alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
        group = await api.create_group(alice, bob, carol)
        delivery = api.services.app.delivery
        commit = delivery.commit_stage._commit_change

        async def commit_after_change(message: Any) -> None:
            monkeypatch.setattr(delivery.commit_stage, "_commit_change", commit)
            api.database["conversations"].update_one({"_id": group}, {"$set": {"gv": 1}})
            await commit(message)

        monkeypatch.setattr(delivery.commit_stage, "_commit_change", commit_after_change)
        await api.invite(alice, group, dave)
        await api.wait_until_idle()
        assert await api.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 0
        deployments.flush_redis("ahead")
        assert set(await api.roles(dave, group)) == {alice, bob, carol, dave}
        assert [message["content"] for message in await api.history(alice, group)] == [f"{alice} added {dave}"]


async def test_a_dead_servers_update_reaches_each_member_once(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_two_servers(open_api) as (surviving, dying):
        alice, bob, carol = await surviving.create_users("alice", "bob", "carol")
        group = await surviving.create_group(alice, bob, carol)
        await surviving.wait_until_idle()
        device = await surviving.listen(bob)
        # It dies after the change of the members' states, before it sends the events.
        monkeypatch.setattr(dying.services.app.bus, "send", lambda *_: None)
        for name, number, expected in ((None, 1, ["GroupChanged"]), ("New", 2, ["MessageCreated", "GroupChanged"])):
            since = await current_cursor(surviving, bob)
            await dying.update_group(alice, group, name=name, metadata={"n": number})
            await device.expect_no_event(0.05)
            before = await surviving.session(bob, group)
            assert await surviving.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
            assert await surviving.session(bob, group) == before
            events = await device.take(len(expected))
            assert [event["__typename"] for event in events] == expected
            assert events[-1]["group"]["metadata"] == {"n": number}
            await device.expect_no_event(0.05)
            assert await read_missed_events(surviving, bob, since) == events
        # It dies before it changes the members' states.
        reached = await stop_before(dying, monkeypatch, "_fan_out")
        change = asyncio.create_task(dying.update_group(alice, group, metadata={"n": 3}))
        await asyncio.wait_for(reached.wait(), TIMEOUT_SECONDS)
        assert await surviving.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
        assert (await device.next())["group"]["metadata"] == {"n": 3}
        await device.expect_no_event(0.05)
        change.cancel()
        dying.services.app.delivery.in_flight._by_id.clear()
