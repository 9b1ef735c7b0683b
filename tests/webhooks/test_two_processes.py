"""Nothing is lost when processes die, leases end, or Redis is flushed; and the order in each conversation holds."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from store.base.errors import StoreError, Superseded
from store.base.tasks import end_tasks
from store.webhooks.delivery_store import DeliveryStore
from store.webhooks.event_log import EventLog
from store.webhooks.event_rows import Line, NotedEvent, WebhookEvent
from store.webhooks.webhook import WebhookId
from tests.api.client import Api, gather_all
from tests.api.conftest import Deployments, OpenApi
from tests.clock import ManualClock
from tests.waiting import TIMEOUT_SECONDS
from tests.webhooks.calls import admin, create_webhook, list_deliveries, wait_for_delivered
from tests.webhooks.conftest import settle
from tests.webhooks.endpoint import Endpoint, Received, first_of_each


@pytest.fixture
def _short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvers.webhooks.outgoing.retry_schedule.DELAYS_MS", (20, 50, 100))
    monkeypatch.setattr("resolvers.webhooks.outgoing.retry_schedule._HOLD_MS", (10, 20))


async def kill(api: Api) -> None:
    """Let a process stop at any step: it can store nothing any more, and its workers end."""
    store, parts = api.services.app.store, api.services.webhooks
    store.mongo.refuse_calls()
    await end_tasks([*parts.worker._tasks, *parts.worker._running.values()])
    if parts.writer._task is not None:
        await end_tasks([parts.writer._task])


def expire_leases(api: Api) -> None:
    """Let the leases of all processes end, as time would."""
    api.database["webhooks"].update_many({}, {"$set": {"lu": 0}})
    api.database["webhook_log"].update_many({}, {"$set": {"un": 0}})


def expect_order(received: Sequence[Received]) -> int:
    """Fail if a message came before an earlier one of its conversation. Return the number of different events."""
    last: dict[str, int] = defaultdict(int)
    events = first_of_each(received)
    for each in events:
        message = each.data["message"]
        assert message["seq"] > last[message["conversationId"]], "out of order"
        last[message["conversationId"]] = message["seq"]
    return len(events)


async def test_a_process_without_workers_has_its_events_delivered_by_another(
    open_api: OpenApi, endpoint: Endpoint
) -> None:
    async with (
        open_api("split", allow_loopback=True, workers=False) as api,
        open_api("split", allow_loopback=True) as worker,
    ):
        alice, bob = await api.create_users("alice", "bob")
        webhook = await create_webhook(api, admin(), endpoint.url)
        assert worker.services.app.store.webhook_registry.webhooks.keys() == {webhook["id"]}
        await api.send(alice, bob, "hello")
        await endpoint.wait_for(1)
        assert endpoint.texts() == ["hello"]


async def test_another_server_knows_a_new_webhook_when_creating_it_is_answered(
    open_api: OpenApi, endpoint: Endpoint
) -> None:
    async with (
        open_api("known", allow_loopback=True) as api,
        open_api("known", allow_loopback=True) as other,
    ):
        alice, bob = await api.create_users("alice", "bob")
        for number in range(5):
            await create_webhook(api, admin(), endpoint.url)
            await other.send(alice, bob, str(number))
        # The first message is for one webhook, the second for two, and so on.
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(endpoint.taken) < 15:  # noqa: ASYNC110  # the server has no events for tests
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("_short_delays")
async def test_nothing_is_lost_or_reordered_when_workers_die(open_api: OpenApi, endpoint: Endpoint, seed: int) -> None:
    chance = random.Random(seed)
    endpoint.decide = lambda _: 500 if chance.random() < 0.1 else 204
    name = f"dying {seed}"
    async with open_api(name, allow_loopback=True, workers=False) as api:
        users = await api.create_users(*"abcdef")
        webhook = await create_webhook(api, admin(), endpoint.url)
        sent = 0

        async def send_some() -> None:
            nonlocal sent
            pairs = [chance.sample(users, 2) for _ in range(15)]
            await gather_all(*(api.send(*pair, str(sent + number)) for number, pair in enumerate(pairs)))
            sent += len(pairs)

        for _ in range(4):
            async with AsyncExitStack() as stack:
                workers = [await stack.enter_async_context(open_api(name, allow_loopback=True)) for _ in range(2)]
                await send_some()
                wanted = len(endpoint.received) + chance.randrange(12)
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    while len(endpoint.received) < wanted and len(first_of_each(endpoint.taken)) < sent:  # noqa: ASYNC110
                        await asyncio.sleep(0.001)
                for worker in workers:
                    await kill(worker)
            expire_leases(api)
        async with open_api(name, allow_loopback=True):
            await wait_for_delivered(api, admin(), webhook["id"], sent)
    assert expect_order(endpoint.taken) == sent


async def test_events_that_are_noted_twice_are_logged_once(api: Api, endpoint: Endpoint) -> None:
    alice, bob = await api.create_users("alice", "bob")
    webhook = await create_webhook(api, admin(), endpoint.url)
    sent = await api.send(alice, bob, "once")
    store = api.services.app.store
    place = (sent["message"]["conversationId"], sent["message"]["seq"])
    message = (await store.messages.find_many([place]))[place]
    for _ in range(3):
        await store.cache.run(api.services.app.webhook_notes.note_calls([message]))
    await settle(api)
    assert len(await list_deliveries(api, admin(), webhook["id"])) == 1
    assert len(endpoint.received) == 1


@pytest.mark.parametrize("step", ["list_entries", "append", "remove", "note_written"])
async def test_the_writer_continues_after_a_failure_at_any_step(
    api: Api, endpoint: Endpoint, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await create_webhook(api, admin(), endpoint.url)
    store = api.services.app.store
    owner: Any = store.webhook_notes if hasattr(store.webhook_notes, step) else store.webhook_log
    failures = 0

    async def fail(*_: Any) -> None:
        nonlocal failures
        failures += 1
        raise StoreError("the step failed")

    with monkeypatch.context() as patch:
        patch.setattr(type(owner), step, fail)
        for number in range(4):
            await api.send(alice, bob, str(number))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not failures:  # noqa: ASYNC110  # the step has no event
                await asyncio.sleep(0.005)
    await endpoint.wait_for(4)
    assert endpoint.texts() == ["0", "1", "2", "3"]


async def test_a_writer_without_its_lease_writes_nothing(api: Api) -> None:
    mongo = api.services.app.store.mongo
    await api.services.webhooks.writer.write()
    expire_leases(api)
    one, other = EventLog(mongo, "one"), EventLog(mongo, "other")
    event = NotedEvent("e_1", "MESSAGE_CREATED", "g_1", (1,), 1)
    assert await one.take_lease() and not await other.take_lease()
    assert await one.append([(WebhookId("h_1"), event)]) == {"h_1"}
    api.database["webhook_log"].update_one({}, {"$set": {"un": 0}})
    assert await other.take_lease() and not await one.take_lease()
    with pytest.raises(Superseded):
        await one.append([(WebhookId("h_1"), event._replace(id="e_2"))])
    assert await other.append([(WebhookId("h_1"), event)]) == set()
    assert [row["_id"] for row in api.database["webhook_events"].find({"w": "h_1"})] == ["h_1 e_1"]
    await other.release_lease()
    for name in ("webhook_events", "webhook_lines"):
        api.database[name].delete_many({"w": "h_1"})


async def test_a_process_that_was_stopped_removes_no_line_with_later_events(api: Api) -> None:
    mongo = api.services.app.store.mongo
    expire_leases(api)
    log, webhook, now_ms = EventLog(mongo, "one"), WebhookId("h_1"), 10
    assert await log.take_lease()
    stopped, other = DeliveryStore(mongo, "stopped"), DeliveryStore(mongo, "other")

    async def list_due() -> tuple[Line, list[WebhookEvent]]:
        (line,) = await other.list_due_lines(webhook, now_ms, 10, ())
        return line, await other.list_pending(line, 10)

    await log.append([(webhook, NotedEvent("e_1", "MESSAGE_CREATED", "g_1", (1,), 1))])
    old_line, events = await list_due()
    # Another process has taken the lease, and delivers.
    await other.complete([(event, 200) for event in events], [], now_ms)
    await other.end_line(old_line, now_ms)
    await log.append([(webhook, NotedEvent("e_2", "MESSAGE_CREATED", "g_1", (2,), 2))])
    await stopped.complete([(event, 200) for event in events], [], now_ms)
    await stopped.end_line(old_line, now_ms)
    line, (event,) = await list_due()
    assert event.id == "e_2"
    # The same with an event that is sent again.
    await other.complete([(event, 200)], [], now_ms)
    await other.end_line(line, now_ms)
    await other.repeat(event, now_ms)
    await stopped.end_line(line, now_ms)
    assert [each.id for each in (await list_due())[1]] == ["e_2"]
    for name in ("webhook_events", "webhook_lines"):
        api.database[name].delete_many({"w": "h_1"})


@pytest.mark.parametrize("writer", ["never wrote", "wrote before", "sees it first"])
async def test_events_that_waited_long_survive_a_loss_of_redis(
    open_api: OpenApi, deployments: Deployments, endpoint: Endpoint, writer: str
) -> None:
    clock, name = ManualClock(), f"waited {writer}"
    async with open_api(name, clock, allow_loopback=True, workers=False) as api:
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob, "before the webhook")
        clock.ms += 20_000
        webhook = await create_webhook(api, admin(), endpoint.url, "MESSAGE_CREATED")
        if writer != "never wrote":
            async with open_api(name, clock, allow_loopback=True) as worker:
                await settle(worker)
        expire_leases(api)
        clock.ms += 1_000
        ids = [(await api.send(alice, bob, str(number)))["message"]["id"] for number in range(3)]
        await api.wait_until_idle()
        clock.ms += 600_000
        deployments.flush_redis(name)
        if writer == "sees it first":
            await api.services.webhooks.writer.write()
        await api.services.housekeeper.check_redis()
        async with open_api(name, clock, allow_loopback=True):
            await wait_for_delivered(api, admin(), webhook["id"], 4)
    created = [each.data["message"]["id"] for each in first_of_each(endpoint.taken) if each.type != "GAP"]
    assert created == ids


async def test_events_survive_a_loss_of_redis_and_a_gap_is_announced(
    open_api: OpenApi, deployments: Deployments, endpoint: Endpoint
) -> None:
    async with open_api("flushed", allow_loopback=True, workers=False) as api:
        alice, bob = await api.create_users("alice", "bob")
        webhook = await create_webhook(
            api, admin(), endpoint.url, "MESSAGE_CREATED", "MESSAGE_UPDATED", "MESSAGE_RECALLED"
        )
        ids = [(await api.send(alice, bob, str(number)))["message"]["id"] for number in range(5)]
        await api.edit(alice, ids[0], "edited")
        await api.recall(alice, ids[1])
        await api.wait_until_idle()
        deployments.flush_redis("flushed")
        housekeeper = api.services.housekeeper
        await housekeeper.check_redis()
        # It is noted before those that are lost are noted again.
        await api.send(alice, bob, "after")
        async with open_api("flushed", allow_loopback=True):
            await wait_for_delivered(api, admin(), webhook["id"], 9)
    events = first_of_each(endpoint.taken)
    created = [each.data["message"]["id"] for each in events if each.type == "MESSAGE_CREATED"]
    assert created[:5] == ids and len(created) == 6
    assert sorted(each.type for each in events if each.type != "MESSAGE_CREATED") == [
        "GAP",
        "MESSAGE_RECALLED",
        "MESSAGE_UPDATED",
    ]
    (gap,) = (each for each in events if each.type == "GAP")
    assert gap.verify(webhook["secret"])["data"].keys() == {"from", "until"}
