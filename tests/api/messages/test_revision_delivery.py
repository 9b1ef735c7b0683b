"""Edits and recalls during the delivery of their message, in large groups, and after their server's death."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import ConversationId
from store.messages.revision_store import RevisionKind
from store.redis.cache import Call
from tests.api.client import RECALL, TIMEOUT_SECONDS, Api, private_id, wait_until
from tests.api.conftest import Deployments, HeldLargeGroupQueue, OpenApi
from tests.api.events import current_cursor, read_missed_events
from tests.api.paused_step import PausedStep
from tests.api.revisions import ALL_PARTITIONS, count_outbox_entries, read_everywhere


async def test_a_revision_waits_until_its_message_is_delivered(api: Api, held_queue: HeldLargeGroupQueue) -> None:
    (prefix,) = await api.create_users("crowd")
    users = await api.create_many_users(prefix, 230)
    group = await api.create_group(*users)
    early_recipient, late_recipient = await api.listen(users[1]), await api.listen(users[-1])
    sent = (await api.send(users[0], group, "secret"))["message"]["id"]
    recall = asyncio.create_task(api.recall(users[0], sent))
    assert (await early_recipient.next())["__typename"] == "MessageCreated"
    await early_recipient.expect_no_event()
    assert not recall.done()
    assert (await api.history(users[5], group))[0]["content"] == "secret"
    held_queue.release()
    await recall
    for device, kinds in (
        (early_recipient, ["MessageRecalled"]),
        (late_recipient, ["MessageCreated", "MessageRecalled"]),
    ):
        assert [event["__typename"] for event in await device.take(len(kinds))] == kinds
        await device.expect_no_event(0.02)


async def test_a_revision_at_another_process_waits_for_a_limited_time(
    api: Api, other_api: Api, held_queue: HeldLargeGroupQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prefix,) = await api.create_users("crowd")
    users = await api.create_many_users(prefix, 230)
    group = await api.create_group(*users)
    sent = (await api.send(users[0], group, "hello"))["message"]
    with monkeypatch.context() as patch:
        patch.setattr("store.redis.single_flight._TIMEOUT_SECONDS", 0.2)
        refusal = await other_api.expect_refusal(users[0], RECALL, id=sent["id"])
    assert (refusal.code, refusal.retryable) == ("UNAVAILABLE", True)
    assert await other_api.history(users[5], group) == [sent]
    held_queue.release()
    assert (await other_api.recall(users[0], sent["id"]))["state"] == "RECALLED"


async def test_all_members_of_a_large_group_receive_a_revision(api: Api) -> None:
    (prefix,) = await api.create_users("crowd")
    users = await api.create_many_users(prefix, 800)
    group = await api.create_group(*users)
    sender, late_recipient = users[-1], users[-2]
    sent = (await api.send(sender, group, "hello"))["message"]["id"]
    await api.wait_until_idle()
    listeners = [await api.listen(user) for user in (users[0], users[400], late_recipient, sender)]
    ticks = {
        user: (await api.own_session(user, group))["activeTs"]
        for user in (users[0], users[400], late_recipient, sender)
    }
    edited = await api.edit(sender, sent, "edited")
    # The user who made the edit is in the first slice.
    assert (await api.own_session(sender, group))["activeTs"] > ticks[sender]
    for device in listeners:
        assert (await device.next())["message"]["content"] == edited["content"]
    await api.wait_until_idle()
    for user, before in ticks.items():
        assert (await api.own_session(user, group))["activeTs"] > before
    assert await count_outbox_entries(api) == 0


async def test_another_server_sends_a_revision_to_the_remaining_members(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prefix,) = await api.create_users("crowd")
    users = await api.create_many_users(prefix, 800)
    group = await api.create_group(*users)
    sent = (await api.send(users[0], group, "hello"))["message"]["id"]
    await api.wait_until_idle()
    early_recipient, late_recipient = await api.listen(users[0]), await api.listen(users[-1])
    revisions: Any = api.services.app.revisions

    async def forget_revision(revision: Any) -> None:
        revisions._unfinished.clear()

    monkeypatch.setattr(revisions, "_publish_remaining_in_background", forget_revision)
    await api.recall(users[0], sent)
    assert (await early_recipient.next())["__typename"] == "MessageRecalled"
    await late_recipient.expect_no_event()
    await api.wait_until_idle()
    assert await other_api.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
    assert (await late_recipient.next())["__typename"] == "MessageRecalled"
    await early_recipient.expect_no_event()
    await other_api.wait_until_idle()
    assert await count_outbox_entries(api) == 0


STEPS = ["announced", "stored", "head updated", "applied", "events sent"]


async def stop_server_after(dead_process: Api, monkeypatch: pytest.MonkeyPatch, step: str, revision: Any) -> None:
    """Let the server stop a revision after a step, as if it died there."""
    revisions = dead_process.services.app.revisions
    stopped = asyncio.Event()

    async def stop_here(*_: Any, **__: Any) -> Any:
        stopped.set()
        await asyncio.Event().wait()

    match step:
        case "announced":
            for name in ("edit", "recall"):
                monkeypatch.setattr(dead_process.services.app.store.revisions, name, stop_here)
            monkeypatch.setattr(dead_process.services.app.store.embeds, "set_previews", stop_here)
        case "stored":
            monkeypatch.setattr(revisions.publisher, "begin", stop_here)
        case "head updated":
            monkeypatch.setattr(revisions.publisher, "_changes", lambda *_: [])
            monkeypatch.setattr(revisions.publisher, "_publish", stop_here)
        case "applied":
            monkeypatch.setattr(revisions.publisher, "_publish", stop_here)
        case "events sent":
            monkeypatch.setattr(dead_process.services.app.store.revisions, "clear_call", lambda _: Call("PING", ()))
    task = asyncio.create_task(revision)
    if step == "events sent":
        await task
        await dead_process.wait_until_idle()
    else:
        await stopped.wait()
    for background_task in list(revisions._tasks):
        background_task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("step", "revision"),
    [
        *((step, "edit") for step in STEPS),
        ("stored", "recall"),
        *(pytest.param(step, "recall", marks=pytest.mark.long) for step in STEPS if step != "stored"),
    ],
)
async def test_another_server_finishes_the_revision_of_a_dead_server_once(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch, step: str, revision: str
) -> None:
    deployment = f"dead {step} {revision}"
    async with open_api(deployment) as dead_process, open_api(deployment) as living_process:
        for api in (dead_process, living_process):
            await api.services.housekeeper.close()
        alice, bob, carol = await living_process.create_users("alice", "bob", "carol")
        group = await living_process.create_group(alice, bob, carol)
        sent = (await living_process.send(alice, group, "before"))["message"]
        await living_process.wait_until_idle()
        since = await current_cursor(living_process, bob)
        listeners = [await living_process.listen(user) for user in (alice, bob, carol)]
        task = (
            dead_process.edit(alice, sent["id"], "after")
            if revision == "edit"
            else dead_process.recall(alice, sent["id"])
        )
        await stop_server_after(dead_process, monkeypatch, step, task)
        is_stored = step != "announced"
        sweep = living_process.services.housekeeper.sweep
        assert await sweep(ALL_PARTITIONS, idle_ms=0) == int(is_stored)
        await living_process.wait_until_idle()
        kinds = {"edit": "MessageUpdated", "recall": "MessageRecalled"}
        content = {"edit": "after", "recall": None}[revision] if is_stored else "before"
        expected = [(kinds[revision], content)] * is_stored
        for listener in listeners:
            events = [await listener.next()] if is_stored else []
            assert [(event["__typename"], event["message"]["content"]) for event in events] == expected
            await listener.expect_no_event(0.08)
        assert [
            (e["__typename"], e["message"]["content"]) for e in await read_missed_events(living_process, bob, since)
        ] == expected
        for user in (alice, bob, carol):
            assert {result["content"] for result in (await read_everywhere(living_process, user, sent)).values()} == {
                content
            }
        assert await sweep(ALL_PARTITIONS, idle_ms=0) == 0
        assert await count_outbox_entries(living_process) == int(not is_stored)
        if not is_stored:
            monkeypatch.setattr("subscriptions.delivery.revisions._ABANDONED_MS", -1)
            assert await sweep(ALL_PARTITIONS, idle_ms=0) == 0
            assert await count_outbox_entries(living_process) == 0
            assert await living_process.history(bob, group) == [sent | {"idempotencyKey": None}]


async def test_a_revision_finished_by_another_server_is_not_sent_twice(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "before"))["message"]["id"]
    await api.wait_until_idle()
    device = await api.listen(bob)
    paused = PausedStep(api.services.app.revisions.publisher, "begin", monkeypatch)
    recall = asyncio.create_task(api.recall(alice, sent))
    await paused.reached.wait()
    # Its own server leaves the revision alone; another server takes it for abandoned.
    assert await api.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 0
    assert await other_api.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
    assert (await device.next())["__typename"] == "MessageRecalled"
    # The first server checks now whether others have sent the events.
    monkeypatch.setattr("subscriptions.delivery.announcements.revision_publisher._SHARED_AFTER_SECONDS", -1)
    paused.resume.set()
    assert (await recall)["state"] == "RECALLED"
    await device.expect_no_event(0.1)


async def test_a_revision_in_the_outbox_does_not_affect_head_and_members(api: Api) -> None:
    """A revision is in the outbox while the group's head and membership are loaded again and written."""
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
    # The message itself counts as delivered, so it can be revised.
    assert (await api.edit(alice, sent, "edited"))["editCount"] == 1
    await store.cache.one(store.revisions.clear_call(revision))


async def test_a_revision_continues_when_its_caller_disconnects(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    await api.wait_until_idle()
    device = await api.listen(bob)
    paused = PausedStep(api.services.app.revisions.publisher, "begin", monkeypatch)
    recall = asyncio.create_task(api.recall(alice, sent))
    await paused.reached.wait()
    recall.cancel()
    await asyncio.gather(recall, return_exceptions=True)
    paused.resume.set()
    assert (await device.next())["__typename"] == "MessageRecalled"
    await api.wait_until_idle()
    assert await count_outbox_entries(api) == 0


class HeldFanout:
    """Lets a process store the next message without fanning it out."""

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

    async def wait_until_stored(self) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await self._stored.wait()

    def release(self) -> None:
        self._push(self._held.pop())


async def test_an_edit_moves_the_session_while_a_later_message_is_not_fanned_out(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later message is stored but not fanned out: for its readers, the session moved with the edit."""
    async with open_api("newest") as api:
        alice, bob = await api.create_users("alice", "bob")
        first = (await api.send(alice, bob, "first"))["message"]["id"]
        await api.own_session(bob, private_id(alice, bob))
        await api.wait_until_idle()
        held_fanout = HeldFanout(api, monkeypatch)
        second_send = asyncio.create_task(api.send(alice, bob, "second"))
        await held_fanout.wait_until_stored()
        await asyncio.sleep(0.005)
        await api.edit(alice, first, "edited")
        moved = (await api.own_session(bob, private_id(alice, bob)))["activeTs"]

        async def is_stored_moved() -> bool:
            row = api.database["sessions"].find_one({"_id": f"{bob} {private_id(alice, bob)}"})
            return row is not None and row.get("a") == moved

        await wait_until(is_stored_moved)
        held_fanout.release()
        await second_send


async def test_a_message_recalled_before_its_fanout_is_not_sent_after_a_loss(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis is flushed, with the outbox, between storing a message and its fan-out."""
    async with open_api("flushed") as api, open_api("flushed") as other:
        for process in (api, other):
            await process.services.housekeeper.close()
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob, "first")
        await api.wait_until_idle()
        held_fanout = HeldFanout(api, monkeypatch)
        second_send = asyncio.create_task(api.send(alice, bob, "secret"))

        await held_fanout.wait_until_stored()
        deployments.flush_redis("flushed")
        device, since = await other.listen(bob), await current_cursor(other, bob)
        (_, message) = await other.history(bob, private_id(alice, bob))
        await other.recall(alice, message["id"])
        held_fanout.release()
        await second_send
        assert (await device.next())["__typename"] == "MessageRecalled"
        await device.expect_no_event()
        assert [event["__typename"] for event in await read_missed_events(other, bob, since)] == ["MessageRecalled"]
        assert await other.unread(bob, private_id(alice, bob)) == 2
