"""Changes of groups that a server left half done: finished by another one, told once, whatever happened in the group since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from store.base.ids import ConversationId
from store.redis.cache import Call
from tests.api.client import LIVE_SESSIONS, Api
from tests.api.conftest import Deployments, OpenApi
from tests.api.revisions import ALL_PARTITIONS, current_cursor, read_missed_events


async def _evict(api: Api, group: str) -> None:
    head, members, *_ = api.services.app.store.keys.conversation(ConversationId(group))
    await api.services.app.store.cache.one(Call("DEL", (head, members)))


async def _stop_before(dead: Api, monkeypatch: pytest.MonkeyPatch, step: str) -> asyncio.Event:
    """The server goes no further than to a step of its delivery."""
    reached = asyncio.Event()

    async def never(*_: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    await dead.services.housekeeper.close()
    monkeypatch.setattr(dead.services.app.delivery.fanout_stage, step, never)
    return reached


@asynccontextmanager
async def _two_servers(open_api: OpenApi) -> AsyncIterator[tuple[Api, Api]]:
    """One that goes on and one that is to die, on the same databases, neither of which finishes what is left by itself."""
    async with open_api("takeover") as living, open_api("takeover") as dead:
        await living.services.housekeeper.close()
        await dead.services.housekeeper.close()
        yield living, dead


async def test_who_was_invited_by_a_server_that_died_is_told_though_the_group_was_changed_since(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("takeover") as living, open_api("takeover") as dead:
        await living.services.housekeeper.close()
        alice, bob, carol, dave = await living.create_users("alice", "bob", "carol", "dave")
        group = await living.create_group(alice, bob, carol)
        since = await current_cursor(living, bob)
        device = await living.listen(dave, LIVE_SESSIONS)
        reached = await _stop_before(dead, monkeypatch, "_fan_out")
        inviting = asyncio.create_task(dead.invite(alice, group, dave))
        await asyncio.wait_for(reached.wait(), 5)
        # What has the next change wait for that one is lost.
        await _evict(living, group)
        await living.set_role(alice, group, carol, "ADMIN")
        assert await living.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
        event = await device.next()
        assert (event["reason"], [s["conversation"]["id"] for s in event["sessions"]]) == ("MEMBERSHIP", [group])
        await device.expect_no_event(0.05)
        told = [event["message"]["content"] for event in await read_missed_events(living, bob, since)]
        assert told == [f"{alice} added {dave}"]
        assert await living.my_groups(dave) == [group]
        await living.wait_until_idle()
        assert await living.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 0
        inviting.cancel()
        dead.services.app.delivery.in_flight._by_id.clear()


@pytest.mark.parametrize("ends", [False, True], ids=["removed", "dismissed"])
async def test_who_was_unmade_a_member_and_not_told_learns_of_it_when_the_change_is_finished(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    async with _two_servers(open_api) as (living, dead):
        alice, bob, carol = await living.create_users("alice", "bob", "carol")
        group = await living.create_group(alice, bob, carol)
        await living.wait_until_idle()
        device = await living.listen(bob, LIVE_SESSIONS)
        monkeypatch.setattr(dead.services.app.bus, "send", lambda *_: None)
        await (dead.dismiss(alice, group) if ends else dead.remove(alice, group, bob))
        await device.expect_no_event(0.1)
        assert await living.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
        event = await device.next()
        assert event["reason"] == ("DELETE" if ends else "MEMBERSHIP")
        await device.expect_no_event(0.05)


async def test_what_overtakes_an_invitation_is_unread_though_the_head_of_the_group_was_evicted(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.total_unread(dave)
    go_on, delivery = asyncio.Event(), api.services.app.delivery
    commit = delivery.commit_stage._commit_change

    async def late(parcelled: Any) -> None:
        await go_on.wait()
        await commit(parcelled)
        await _evict(api, group)

    monkeypatch.setattr(delivery.commit_stage, "_commit_change", late)
    inviting = asyncio.create_task(api.invite(alice, group, dave))
    await asyncio.sleep(0.1)
    await api.send(bob, group, "hello, Dave")
    await api.total_unread(dave)
    show = delivery.fanout_stage._fan_out

    async def forgotten(batch: Any) -> None:
        await _evict(api, group)
        await show(batch)

    monkeypatch.setattr(delivery.fanout_stage, "_fan_out", forgotten)
    go_on.set()
    await inviting
    await api.wait_until_idle()
    session = await api.own_session(dave, group)
    assert (session["writeSeq"], session["unreadCount"]) == (2, 1)


async def test_who_is_just_becoming_a_member_writes_and_is_mentioned_once_they_are(
    api: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    go_on, delivery = asyncio.Event(), api.services.app.delivery
    commit = delivery.commit_stage._commit_change

    async def late(parcelled: Any) -> None:
        await go_on.wait()
        await commit(parcelled)

    monkeypatch.setattr(delivery.commit_stage, "_commit_change", late)
    inviting = asyncio.create_task(api.invite(alice, group, dave))
    await asyncio.sleep(0.1)
    await api.send(bob, group, "to those who are in it")
    sending = [
        asyncio.create_task(api.send(bob, group, "to Dave", mentions=[dave])),
        asyncio.create_task(api.send(dave, group, "from Dave")),
    ]
    await asyncio.sleep(0.1)
    assert not any(task.done() for task in sending)
    go_on.set()
    await inviting
    await sending[0]
    own = (await sending[1])["message"]["seq"]
    await api.wait_until_idle()
    warm = await api.own_session(dave, group)
    assert (warm["readSeq"], warm["unreadCount"]) in {(own, 0), (own, 1)}
    deployments.evict_user_state("main", dave)
    assert await api.own_session(dave, group) == warm | {"activeTs": (await api.own_session(dave, group))["activeTs"]}


async def test_a_going_that_is_finished_when_one_is_back_does_not_end_the_new_stay(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _two_servers(open_api) as (living, dead):
        alice, bob, carol = await living.create_users("alice", "bob", "carol")
        group = await living.create_group(alice, bob, carol)
        await living.wait_until_idle()
        await living.total_unread(bob)
        monkeypatch.setattr(dead.services.app.bus, "send", lambda *_: None)
        await dead.remove(alice, group, bob)
        await living.invite(alice, group, bob)
        await living.wait_until_idle()
        assert await living.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
        await living.wait_until_idle()
        device = await living.listen(bob)
        await living.send(carol, group, "welcome back")
        assert (await device.next())["message"]["content"] == "welcome back"
        session = await living.own_session(bob, group)
        assert (session["writeSeq"], session["unreadCount"]) == (3, 1)


async def test_a_coming_that_is_finished_late_leaves_what_one_did_since(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _two_servers(open_api) as (living, dead):
        alice, bob, carol, dave = await living.create_users("alice", "bob", "carol", "dave")
        group = await living.create_group(alice, bob, carol)
        await living.wait_until_idle()
        await living.total_unread(dave)
        monkeypatch.setattr(dead.services.app.bus, "send", lambda *_: None)
        await dead.invite(alice, group, dave)
        await living.delete(dave, group)
        await living.wait_until_idle()
        before = await living.own_session(dave, group)
        assert before["status"] == "INVALID"
        assert await living.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
        await living.wait_until_idle()
        assert await living.own_session(dave, group) == before


async def test_a_change_that_mongodb_was_ahead_of_is_decided_anew_and_nothing_of_the_first_try_is_left(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("ahead") as api:
        await api.services.housekeeper.close()
        alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
        group = await api.create_group(alice, bob, carol)
        delivery = api.services.app.delivery
        commit = delivery.commit_stage._commit_change

        async def overtaken(parcelled: Any) -> None:
            monkeypatch.setattr(delivery.commit_stage, "_commit_change", commit)
            api.database["conversations"].update_one({"_id": group}, {"$set": {"gv": 1}})
            await commit(parcelled)

        monkeypatch.setattr(delivery.commit_stage, "_commit_change", overtaken)
        await api.invite(alice, group, dave)
        await api.wait_until_idle()
        assert await api.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 0
        deployments.flush_redis("ahead")
        assert set(await api.roles(dave, group)) == {alice, bob, carol, dave}
        assert [message["content"] for message in await api.history(alice, group)] == [f"{alice} added {dave}"]
