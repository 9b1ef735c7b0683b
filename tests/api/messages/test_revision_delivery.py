"""Edits and recalls beside the delivery of their message, to crowds, and after the death of the server that began them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import ConversationId
from store.messages.revision_store import RevisionKind
from store.redis.cache import Call
from tests.api.client import RECALL, Api, private_id, wait_until
from tests.api.conftest import Deployments, HeldLargeGroupQueue, OpenApi
from tests.api.revisions import (
    ALL_PARTITIONS,
    PausedRevisions,
    count_outbox_entries,
    current_cursor,
    read_everywhere,
    read_missed_events,
)

# --- the delivery of their message


async def test_a_message_is_revised_when_all_have_it(api: Api, held_queue: HeldLargeGroupQueue) -> None:
    (mark,) = await api.create_users("crowd")
    people = await api.create_many_users(mark, 230)
    group = await api.create_group(*people)
    near, far = await api.listen(people[1]), await api.listen(people[-1])
    sent = (await api.send(people[0], group, "secret"))["message"]["id"]
    recalling = asyncio.create_task(api.recall(people[0], sent))
    await asyncio.sleep(0.1)
    assert not recalling.done()
    assert [event["__typename"] for event in near.pop_events()] == ["MessageCreated"]
    assert (await api.history(people[5], group))[0]["content"] == "secret"
    held_queue.release()
    await recalling
    for device, kinds in ((near, ["MessageRecalled"]), (far, ["MessageCreated", "MessageRecalled"])):
        assert [event["__typename"] for event in await device.take(len(kinds))] == kinds
        await device.expect_no_event(0.02)


async def test_another_process_waits_for_it_too_and_gives_up_in_the_end(
    api: Api, other_api: Api, held_queue: HeldLargeGroupQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.redis.single_flight._TIMEOUT_SECONDS", 0.2)
    (mark,) = await api.create_users("crowd")
    people = await api.create_many_users(mark, 230)
    group = await api.create_group(*people)
    sent = (await api.send(people[0], group, "hello"))["message"]
    refusal = await other_api.expect_refusal(people[0], RECALL, id=sent["id"])
    assert (refusal.code, refusal.retryable) == ("UNAVAILABLE", True)
    assert await other_api.history(people[5], group) == [sent]
    held_queue.release()
    assert (await other_api.recall(people[0], sent["id"]))["state"] == "RECALLED"


async def test_all_members_of_a_crowd_hear_of_it_those_beyond_the_first_later(api: Api) -> None:
    (mark,) = await api.create_users("crowd")
    people = await api.create_many_users(mark, 800)
    group = await api.create_group(*people)
    sender, far = people[-1], people[-2]
    sent = (await api.send(sender, group, "hello"))["message"]["id"]
    await api.wait_until_idle()
    some = [await api.listen(user) for user in (people[0], people[400], far, sender)]
    ticks = {user: (await api.own_session(user, group))["activeTs"] for user in (people[0], people[400], far, sender)}
    edited = await api.edit(sender, sent, "edited")
    # Whoever asked for it is among the first.
    assert (await api.own_session(sender, group))["activeTs"] > ticks[sender]
    for device in some:
        assert (await device.next())["message"]["content"] == edited["content"]
    await api.wait_until_idle()
    for user, before in ticks.items():
        assert (await api.own_session(user, group))["activeTs"] > before
    assert await count_outbox_entries(api) == 0


# --- a server's death


async def test_members_of_a_crowd_who_were_not_reached_are_told_by_another_server(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mark,) = await api.create_users("crowd")
    people = await api.create_many_users(mark, 800)
    group = await api.create_group(*people)
    sent = (await api.send(people[0], group, "hello"))["message"]["id"]
    await api.wait_until_idle()
    near, far = await api.listen(people[0]), await api.listen(people[-1])
    revisions: Any = api.services.app.revisions

    async def die(telling: Any) -> None:
        revisions._under_way.clear()

    monkeypatch.setattr(revisions, "_publish_remaining_in_background", die)
    await api.recall(people[0], sent)
    assert (await near.next())["__typename"] == "MessageRecalled"
    await far.expect_no_event()
    await api.wait_until_idle()
    assert await other_api.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
    assert (await far.next())["__typename"] == "MessageRecalled"
    await near.expect_no_event()
    await other_api.wait_until_idle()
    assert await count_outbox_entries(api) == 0


HOW_FAR = ["announced", "stored", "head shown", "applied", "told"]


async def _die_while(dead: Api, monkeypatch: pytest.MonkeyPatch, how_far: str, act: Any) -> None:
    """What a server does of a revision's way before it dies."""
    revisions = dead.services.app.revisions
    stopped = asyncio.Event()

    async def stop(*_: Any, **__: Any) -> Any:
        stopped.set()
        await asyncio.Event().wait()

    match how_far:
        case "announced":
            for name in ("edit", "recall"):
                monkeypatch.setattr(dead.services.app.store.revisions, name, stop)
        case "stored":
            monkeypatch.setattr(revisions, "_begin", stop)
        case "head shown":
            monkeypatch.setattr(revisions, "_changes", lambda *_: [])
            monkeypatch.setattr(revisions, "_publish", stop)
        case "applied":
            monkeypatch.setattr(revisions, "_publish", stop)
        case "told":
            monkeypatch.setattr(dead.services.app.store.revisions, "clear_call", lambda _: Call("PING", ()))
    work = asyncio.create_task(act)
    if how_far == "told":
        await work
        await dead.wait_until_idle()
    else:
        await stopped.wait()
    for task in list(revisions._tasks):
        task.cancel()
    await asyncio.gather(work, return_exceptions=True)


@pytest.mark.parametrize("act", ["edit", "recall"])
@pytest.mark.parametrize("how_far", HOW_FAR)
async def test_what_a_dead_server_left_half_told_another_one_finishes_and_tells_once(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch, how_far: str, act: str
) -> None:
    place = f"dead {how_far} {act}"
    async with open_api(place) as dead, open_api(place) as living:
        for api in (dead, living):
            await api.services.housekeeper.close()
        alice, bob, carol = await living.create_users("alice", "bob", "carol")
        group = await living.create_group(alice, bob, carol)
        sent = (await living.send(alice, group, "before"))["message"]
        await living.wait_until_idle()
        since = await current_cursor(living, bob)
        listeners = [await living.listen(user) for user in (alice, bob, carol)]
        work = dead.edit(alice, sent["id"], "after") if act == "edit" else dead.recall(alice, sent["id"])
        await _die_while(dead, monkeypatch, how_far, work)
        happened = how_far != "announced"
        sweep = living.services.housekeeper.sweep
        assert await sweep(ALL_PARTITIONS, idle_ms=0) == int(happened)
        await living.wait_until_idle()
        kinds = {"edit": "MessageUpdated", "recall": "MessageRecalled"}
        content = {"edit": "after", "recall": None}[act] if happened else "before"
        expected = [(kinds[act], content)] * happened
        for listener in listeners:
            events = [await listener.next()] if happened else []
            assert [(event["__typename"], event["message"]["content"]) for event in events] == expected
            await listener.expect_no_event(0.08)
        assert [
            (e["__typename"], e["message"]["content"]) for e in await read_missed_events(living, bob, since)
        ] == expected
        for user in (alice, bob, carol):
            assert {found["content"] for found in (await read_everywhere(living, user, sent)).values()} == {content}
        assert await sweep(ALL_PARTITIONS, idle_ms=0) == 0
        assert await count_outbox_entries(living) == int(not happened)
        if not happened:
            monkeypatch.setattr("subscriptions.delivery.revisions._FORGOTTEN_MS", -1)
            assert await sweep(ALL_PARTITIONS, idle_ms=0) == 0
            assert await count_outbox_entries(living) == 0
            assert await living.history(bob, group) == [sent | {"idempotencyKey": None}]


async def test_an_announced_revision_waits_for_its_server_and_is_told_when_it_was_slow(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "before"))["message"]["id"]
    await api.wait_until_idle()
    device = await api.listen(bob)
    slowly = PausedRevisions(api, monkeypatch, "_begin")
    recalling = asyncio.create_task(api.recall(alice, sent))
    await slowly.reached.wait()
    # Its own server leaves it alone; another one takes it for left behind.
    assert await api.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 0
    assert await other_api.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
    assert (await device.next())["__typename"] == "MessageRecalled"
    # By now the first one asks whether others told of it.
    monkeypatch.setattr("subscriptions.delivery.revisions._SHARED_AFTER_SECONDS", -1)
    slowly.resume.set()
    assert (await recalling)["state"] == "RECALLED"
    await device.expect_no_event(0.1)


async def test_what_waits_in_the_outbox_gives_no_place_and_makes_no_member(api: Api) -> None:
    """A revision in the outbox while a group's head and membership are loaded anew, and written to."""
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group))["message"]["id"]
    await api.wait_until_idle()
    store = api.services.app.store
    (message,) = (await store.messages.find_by_ids([int(sent[2:])])).values()  # type: ignore[list-item]
    revision = await store.revisions.announce(message, RevisionKind.RECALL)
    keys = store.keys.conversation(ConversationId(group))
    await store.cache.one(Call("DEL", (keys[0], keys[1], keys[3])))
    assert (await api.send(bob, group))["message"]["seq"] == 2
    await store.cache.one(Call("DEL", (keys[0], keys[1], keys[3])))
    assert (await api.invite(bob, group, dave))["memberCount"] == 4
    assert (await api.own_session(alice, group))["unreadCount"] == 1
    # And the message itself can be revised: it is delivered.
    assert (await api.edit(alice, sent, "edited"))["editCount"] == 1
    await store.cache.one(store.revisions.clear_call(revision))


async def test_a_caller_who_goes_away_stops_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    await api.wait_until_idle()
    device = await api.listen(bob)
    slowly = PausedRevisions(api, monkeypatch, "_begin")
    asking = asyncio.create_task(api.recall(alice, sent))
    await slowly.reached.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    slowly.resume.set()
    assert (await device.next())["__typename"] == "MessageRecalled"
    await api.wait_until_idle()
    assert await count_outbox_entries(api) == 0


class Unshown:
    """Has a process store the next message and not show it."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        queue = api.services.app.delivery.fanout_stage.queue
        self._push = queue.push
        self._held: list[Any] = []
        self._stored = asyncio.Event()
        monkeypatch.setattr(queue, "push", self._hold)

    def _hold(self, messages: Any) -> None:
        if self._stored.is_set():
            self._push(messages)
        else:
            self._held.append(messages)
            self._stored.set()

    async def reach(self) -> None:
        async with asyncio.timeout(5):
            await self._stored.wait()

    def release(self) -> None:
        self._push(self._held.pop())


async def test_a_session_that_moves_for_what_was_the_newest_is_not_turned_back_by_a_lost_cache(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later message is stored, and its readers don't know of it yet: to them, the session moved with the edit."""
    async with open_api("newest") as api:
        alice, bob = await api.create_users("alice", "bob")
        first = (await api.send(alice, bob, "first"))["message"]["id"]
        await api.own_session(bob, private_id(alice, bob))
        await api.wait_until_idle()
        unshown = Unshown(api, monkeypatch)
        sending = asyncio.create_task(api.send(alice, bob, "second"))
        await unshown.reach()
        await asyncio.sleep(0.005)
        await api.edit(alice, first, "edited")
        moved = (await api.own_session(bob, private_id(alice, bob)))["activeTs"]

        async def kept() -> bool:
            row = api.database["sessions"].find_one({"_id": f"{bob} {private_id(alice, bob)}"})
            return row is not None and row.get("a") == moved

        await wait_until(kept)
        unshown.release()
        await sending


async def test_a_state_that_was_lost_while_a_message_was_shown_does_not_hear_of_it_after_its_recall(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis is flushed, outbox and all, between a message's storing and its showing."""
    async with open_api("flushed") as api, open_api("flushed") as other:
        for process in (api, other):
            await process.services.housekeeper.close()
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob, "first")
        await api.wait_until_idle()
        unshown = Unshown(api, monkeypatch)
        sending = asyncio.create_task(api.send(alice, bob, "secret"))

        await unshown.reach()
        deployments.flush_redis("flushed")
        device, since = await other.listen(bob), await current_cursor(other, bob)
        (_, message) = await other.history(bob, private_id(alice, bob))
        await other.recall(alice, message["id"])
        unshown.release()
        await sending
        assert (await device.next())["__typename"] == "MessageRecalled"
        await device.expect_no_event()
        assert [event["__typename"] for event in await read_missed_events(other, bob, since)] == ["MessageRecalled"]
        assert await other.unread(bob, private_id(alice, bob)) == 2
