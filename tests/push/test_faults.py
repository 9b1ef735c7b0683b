"""Workers that die at any step, loss and eviction in Redis: no push is lost, and none is shown twice under two tags."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from resolvers.push.worker.decision import Case, PushDecision, decide
from store.base.ids import ConversationId, UserId
from store.devices.device import PushPlatform
from store.push.leased_queue import LEASE_MS
from tests.api.client import private_id
from tests.api.conftest import Deployments, OpenApi
from tests.clock import ManualClock
from tests.conftest import of_one_redis
from tests.push.pushing import Pushing
from tests.push.recording import UNREACHABLE, RecordingService

AFTER_A_LEASE = LEASE_MS / 1000 + 1


class Killed(BaseException):
    """The process ends here."""


@asynccontextmanager
async def two_processes(open_api: OpenApi, name: str) -> AsyncIterator[tuple[Pushing, Pushing]]:
    """Two processes of one deployment, with the same clock and push services."""
    clock, services = ManualClock(), {platform: RecordingService() for platform in PushPlatform}
    async with (
        open_api(name, clock, push_services=services, workers=False) as one,
        open_api(name, clock, push_services=services, workers=False) as other,
    ):
        yield Pushing(one, clock, services, (other,)), Pushing(other, clock, services, (one,))


@pytest.fixture(scope="module")
async def processes(open_api: OpenApi) -> AsyncIterator[tuple[Pushing, Pushing]]:
    async with two_processes(open_api, "two") as pair:
        yield pair


def kill_at(monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, *, is_done: bool) -> None:
    """Make a process die when it calls a method; is_done: after the method has done its work."""
    call: Callable[..., Awaitable[Any]] = getattr(owner, method)

    async def die(*args: Any, **more: Any) -> Any:
        if is_done:
            await call(*args, **more)
        raise Killed

    monkeypatch.setattr(owner, method, die)


STEPS = [
    ("noted_conversations", "take", True),
    ("devices", "list_pushed", False),
    ("push_intents", "put", False),
    ("push_intents", "put", True),
    ("noted_conversations", "finish", False),
    ("noted_conversations", "finish", True),
    ("push_intents", "take", True),
    ("notification_settings", "find_many", False),
    ("push_intents", "settle", False),
    ("push_intents", "settle", True),
]


@pytest.mark.parametrize(("part", "method", "is_done"), STEPS)
async def test_another_process_continues_where_a_worker_died(
    processes: tuple[Pushing, Pushing], monkeypatch: pytest.MonkeyPatch, part: str, method: str, is_done: bool
) -> None:
    dying, living = processes
    alice, bob, carol = await living.create_users("alice", "bob", "carol")
    group = await living.api.create_group(alice, bob, carol)
    await living.work()
    await dying.send(alice, group, "important")
    await dying.api.wait_until_idle()
    with monkeypatch.context() as patch:
        kill_at(patch, getattr(dying.api.services.app.store, part), method, is_done=is_done)
        with pytest.raises(Killed):
            await dying.worker.run_due()
    await living.pass_time(AFTER_A_LEASE)
    await living.pass_time(AFTER_A_LEASE)
    for user in (bob, carol):
        texts = living.service.texts(user)
        assert set(texts) == {("Group", "Alice: important")} and len(texts) <= 2
        assert len({push.message.tag for push in living.service.to(user)}) == 1
    assert living.service.to(alice) == []
    count = len(living.service.pushes)
    await living.pass_time(3 * AFTER_A_LEASE)
    assert len(living.service.pushes) == count


async def test_messages_that_come_while_an_intent_is_worked_on_are_not_lost(
    processes: tuple[Pushing, Pushing], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = processes
    alice, bob = await one.create_users("alice", "bob")
    await one.send(alice, bob, "first")
    settle = one.api.services.app.store.push_intents.settle

    async def send_before_settling(settled: Any) -> None:
        monkeypatch.undo()
        await other.send(alice, bob, "second")
        await other.api.wait_until_idle()
        await other.worker._expand()
        await settle(settled)

    monkeypatch.setattr(one.api.services.app.store.push_intents, "settle", send_before_settling)
    await one.work()
    await other.pass_time(6)
    assert one.service.texts(bob) == [("Alice", "first"), ("Alice", "second")]


async def test_reading_while_the_push_is_sent_removes_it(processes: tuple[Pushing, Pushing]) -> None:
    one, other = processes
    alice, bob = await one.create_users("alice", "bob")
    await one.send(alice, bob)
    one.service.gate.clear()
    await one.api.wait_until_idle()
    await one.worker._expand()
    await one.worker._decide_due()
    await other.api.mark_read(bob, private_id(alice, bob))
    await other.api.services.app.stale_notifications.write()
    one.service.gate.set()
    await one.work()
    await other.work()
    assert len(one.service.shown_to(bob)) == len(one.service.quiet_to(bob)) == 1


async def test_two_processes_that_work_at_once_send_each_push_once(processes: tuple[Pushing, Pushing]) -> None:
    one, other = processes
    alice, *others = await one.create_users("alice", *(f"u{number:02}" for number in range(30)))
    group = await one.api.create_group(alice, *others)
    await one.work()
    for pushing in (one, other):
        pushing.service.pushes.clear()
    for number in range(20):
        await (one, other)[number % 2].send(alice, group, f"number {number}")
        await asyncio.gather(one.work(), other.work())
    for pushing in (one, other):
        await pushing.pass_time(6)
    for user in others:
        texts = one.service.texts(user)
        assert texts[-1] == ("Group", "Alice: number 19") and len(texts) == len(set(texts)) == 2


async def test_no_push_is_lost_with_redis(open_api: OpenApi, deployments: Deployments) -> None:
    async with two_processes(open_api, "flushed") as (one, other):
        for pushing in (one, other):
            await pushing.api.services.housekeeper.close()
        alice, bob, carol, dave = await one.create_users("alice", "bob", "carol", "dave")
        stop_using = await one.use_device(carol)
        await one.send(alice, bob, "noted")
        await one.send(alice, carol, "waits for the device")
        one.service.answers.append(UNREACHABLE)
        await one.send(bob, dave, "waits for the service")
        await one.work()
        await one.pass_time(5)
        one.service.pushes.clear()
        await one.send(alice, dave, "not worked on")
        await one.api.wait_until_idle()
        await stop_using()
        deployments.flush_redis("flushed")
        for pushing in (one, other):
            await pushing.api.services.housekeeper.check_redis()
        await other.api.services.housekeeper._loss_recovery.recover()
        await other.pass_time(11)
        assert other.service.texts(bob) == [("Alice", "noted")]
        assert other.service.texts(carol) == [("Alice", "waits for the device")]
        assert set(other.service.texts(dave)) == {("Bob", "waits for the service"), ("Alice", "not worked on")}


async def test_messages_read_before_the_loss_are_not_pushed_after_it(
    open_api: OpenApi, deployments: Deployments
) -> None:
    async with two_processes(open_api, "read before") as (one, _):
        await one.api.services.housekeeper.close()
        alice, bob = await one.create_users("alice", "bob")
        await one.send(alice, bob)
        await one.api.mark_read(bob, private_id(alice, bob))
        await one.api.wait_until_idle()
        deployments.flush_redis("read before")
        await one.api.services.housekeeper.check_redis()
        await one.api.services.housekeeper._loss_recovery.recover()
        await one.pass_time(11)
        assert one.service.to(bob) == []


@of_one_redis
@pytest.mark.parametrize("evicted", ["due", "taken", "records"])
@pytest.mark.parametrize("queue", ["notes", "intents"])
async def test_evicted_keys_lose_no_push(open_api: OpenApi, deployments: Deployments, queue: str, evicted: str) -> None:
    async with two_processes(open_api, "evicted") as (one, other):
        alice, bob = await one.create_users("alice", "bob")
        await one.send(alice, bob, "important")
        await one.api.wait_until_idle()
        store = one.api.services.app.store
        if queue == "intents":
            await one.worker._expand()
        await (store.noted_conversations if queue == "notes" else store.push_intents).take(10)
        await one.send(alice, bob, "more")
        await one.api.wait_until_idle()
        for key in deployments.keys("evicted", f"*}}:{queue}:{evicted}"):
            deployments._redis.delete(key)
        await other.pass_time(AFTER_A_LEASE)
        await other.pass_time(AFTER_A_LEASE)
        assert other.service.texts(bob)[-1] == ("Alice", "more")


async def test_an_intent_without_record_and_conversation_holds_no_other(
    processes: tuple[Pushing, Pushing], deployments: Deployments
) -> None:
    one, _ = processes
    alice, bob = await one.create_users("alice", "bob")
    store, missing = one.api.services.app.store, ConversationId("p_nobody_nothing")
    await store.push_intents.put([(missing, 1, 1, [UserId(bob)])])
    for key in deployments.keys("two", "*}:intents:records"):
        deployments._redis.hdel(key, f"{bob} {missing}")
    await one.send(alice, bob)
    await one.expect(bob, ("Alice", "hello"))
    assert (await store.push_intents.measure())[0] == 0


async def test_an_intent_that_cannot_be_decided_holds_no_other(
    processes: tuple[Pushing, Pushing], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = processes
    alice, bob, carol = await one.create_users("alice", "bob", "carol")

    def fail_for_bob(case: Case) -> PushDecision:
        if case.user == bob:
            raise ValueError
        return decide(case)

    monkeypatch.setattr("resolvers.push.worker.intent_batch.decide", fail_for_bob)
    await one.send(alice, bob)
    await one.send(alice, carol)
    await one.expect(carol, ("Alice", "hello"))
    assert (await one.api.services.app.store.push_intents.measure())[0] == 0
