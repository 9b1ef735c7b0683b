"""When failed events are sent again, and when a webhook is paused: by a manual clock."""

from __future__ import annotations

import asyncio
import random

import pytest

from resolvers.webhooks.outgoing.retry_schedule import DELAYS_MS, delay_ms, hold_ms, parse_retry_after
from tests.api.client import Api
from tests.clock import START_MS
from tests.waiting import wait_for
from tests.webhooks.calls import (
    REDELIVER,
    admin,
    create_webhook,
    find_webhook,
    list_deliveries,
    redeliver,
    wait_for_delivered,
    wait_for_failure,
)
from tests.webhooks.conftest import ClockedApi
from tests.webhooks.endpoint import Endpoint, answer

LONG_AGO = "2020-01-01T00:00:00.000Z"


async def expect_attempts(endpoint: Endpoint, api: Api, webhook: str, attempts: int) -> None:
    await endpoint.wait_for_attempts(attempts)
    await wait_for_failure(api, admin(), webhook, attempts)


async def test_attempts_follow_the_schedule_until_five_days_of_failures(
    clocked: ClockedApi, endpoint: Endpoint
) -> None:
    api = clocked.api
    alice, bob = await api.create_users("alice", "bob")
    webhook = (await create_webhook(api, admin(), endpoint.url))["id"]
    endpoint.decide = lambda _: 500
    await api.send(alice, bob)
    began = clocked.clock.ms
    await expect_attempts(endpoint, api, webhook, 1)
    for attempt, delay in enumerate([*DELAYS_MS, *[DELAYS_MS[-1]] * 3], 1):
        await clocked.advance(delay / 1000 - 1)
        await clocked.settle()
        assert len(endpoint.received) == attempt
        await clocked.advance(1 + delay / 10_000)
        await expect_attempts(endpoint, api, webhook, attempt + 1)
        state = (await find_webhook(api, admin(), webhook))["state"]
        assert state == ("FAILING" if clocked.clock.ms - began < 5 * 24 * 3_600_000 else "PAUSED")
        if state == "PAUSED":
            break
    assert state == "PAUSED"
    await clocked.advance(10 * 24 * 3600)
    await api.send(alice, bob, "while it is paused")
    await clocked.settle()
    assert len({each.event_id for each in endpoint.received}) == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_an_endpoint_that_asks_for_a_pause_gets_it(clocked: ClockedApi, endpoint: Endpoint, status: int) -> None:
    api = clocked.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    webhook = (await create_webhook(api, admin(), endpoint.url))["id"]
    endpoint.decide = lambda _: answer(status, retry_after="60") if len(endpoint.received) == 0 else 204
    await api.send(alice, bob)
    await expect_attempts(endpoint, api, webhook, 1)
    await clocked.advance(50)
    await api.send(alice, carol)
    await clocked.settle()
    assert len(endpoint.received) == 1
    await clocked.advance(11)
    await endpoint.wait_for(2)


async def test_a_success_of_another_conversation_does_not_end_a_pause(clocked: ClockedApi, endpoint: Endpoint) -> None:
    api = clocked.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    webhook = (await create_webhook(api, admin(), endpoint.url))["id"]
    asked = asyncio.Event()

    async def answer_later(writer: asyncio.StreamWriter) -> None:
        await asked.wait()
        writer.write(answer(200))
        await writer.drain()

    slow = (await api.send(alice, bob, "0"))["message"]["conversationId"]
    await endpoint.wait_for(1)
    endpoint.decide = lambda request: (
        answer_later if request.data["message"]["conversationId"] == slow else answer(429, retry_after="3600")
    )
    for text in ("1", "2", "3"):
        await api.send(alice, bob, text)
    await endpoint.wait_for_attempts(2)
    await api.send(alice, carol, "too many")
    await wait_for_failure(api, admin(), webhook)
    asked.set()
    await clocked.settle()
    await clocked.advance(3_000)
    await clocked.settle()
    assert len(endpoint.received) == 3
    endpoint.decide = lambda _: 200
    await clocked.advance(700)
    await endpoint.wait_for(4)


async def test_gone_pauses_at_once_and_redelivering_resumes(clocked: ClockedApi, endpoint: Endpoint) -> None:
    api = clocked.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    webhook = (await create_webhook(api, admin(), endpoint.url))["id"]
    endpoint.decide = lambda _: 410
    await api.send(alice, bob, "0")
    await expect_attempts(endpoint, api, webhook, 1)
    found = await find_webhook(api, admin(), webhook)
    assert found["state"] == "PAUSED" and found["failingSince"] is not None
    (delivery,) = await list_deliveries(api, admin(), webhook)
    assert (delivery["status"], delivery["nextAttemptAt"], delivery["deliveredAt"]) == (410, None, None)
    for text, other in (("1", bob), ("2", carol), ("3", bob)):
        await api.send(alice, other, text)
    await clocked.settle()
    await clocked.advance(24 * 3600)
    await clocked.settle()
    assert len(endpoint.received) == 1
    endpoint.decide = lambda _: 200
    assert await redeliver(api, admin(), webhook, since=LONG_AGO) == 4
    await endpoint.wait_for(4)
    texts = endpoint.texts()
    assert sorted(texts) == ["0", "1", "2", "3"] and [t for t in texts if t != "2"] == ["0", "1", "3"]
    await wait_for_delivered(api, admin(), webhook, 4)
    found = await find_webhook(api, admin(), webhook)
    assert found["state"] == "ACTIVE" and found["failingSince"] is None
    assert await redeliver(api, admin(), webhook, since=LONG_AGO) == 0


async def test_one_delivery_is_sent_again_with_its_id(clocked: ClockedApi, endpoint: Endpoint) -> None:
    api = clocked.api
    alice, bob = await api.create_users("alice", "bob")
    webhook = (await create_webhook(api, admin(), endpoint.url))["id"]
    for text in ("0", "1"):
        await api.send(alice, bob, text)
    first, _ = await wait_for_delivered(api, admin(), webhook, 2)
    assert await redeliver(api, admin(), webhook, delivery=first["id"]) == 1
    await endpoint.wait_for_attempts(3)
    assert endpoint.received[2].event_id == first["eventId"]
    first, _ = await wait_for_delivered(api, admin(), webhook, 2)
    assert first["attempts"] == 2


async def test_since_leaves_out_earlier_events_in_its_count(clocked: ClockedApi, endpoint: Endpoint) -> None:
    api = clocked.api
    alice, bob = await api.create_users("alice", "bob")
    webhook = (await create_webhook(api, admin(), endpoint.url))["id"]
    endpoint.decide = lambda _: 410
    await api.send(alice, bob, "0")
    await expect_attempts(endpoint, api, webhook, 1)
    await clocked.advance(3600)
    since = clocked.iso_now()
    await api.send(alice, bob, "1")
    await clocked.settle()
    endpoint.decide = lambda _: 200
    assert await redeliver(api, admin(), webhook, since=since) == 1
    # The order holds: what was not delivered before comes first.
    await endpoint.wait_for(2)
    assert endpoint.texts() == ["0", "1"]


@pytest.mark.parametrize("which", [{}, {"delivery": "h_1.1", "since": LONG_AGO}], ids=["neither", "both"])
async def test_redelivering_needs_one_of_both_arguments(
    clocked: ClockedApi, endpoint: Endpoint, which: dict[str, str]
) -> None:
    webhook = (await create_webhook(clocked.api, admin(), endpoint.url))["id"]
    refusal = await clocked.api.expect_refusal(admin(), REDELIVER, id=webhook, **which)
    assert refusal.code == "INVALID_INPUT"


@pytest.mark.parametrize("delivery", ["", "1", "h_1.1", "{webhook}.999", "{webhook}.x", "{webhook}.9999999999999999"])
async def test_an_unknown_delivery_is_not_found(clocked: ClockedApi, endpoint: Endpoint, delivery: str) -> None:
    webhook = (await create_webhook(clocked.api, admin(), endpoint.url))["id"]
    refusal = await clocked.api.expect_refusal(
        admin(), REDELIVER, id=webhook, delivery=delivery.format(webhook=webhook)
    )
    assert (refusal.code, refusal.field) == ("NOT_FOUND", "deliveryId")


async def test_time_without_attempts_is_no_time_of_failures(clocked: ClockedApi, endpoint: Endpoint) -> None:
    api = clocked.api
    alice, bob = await api.create_users("alice", "bob")
    webhook = (await create_webhook(api, admin(), endpoint.url))["id"]
    endpoint.decide = lambda _: 500
    await api.send(alice, bob)
    await expect_attempts(endpoint, api, webhook, 1)
    # No process delivered for some days.
    await clocked.advance(6 * 24 * 3600)
    await expect_attempts(endpoint, api, webhook, 2)
    found = await find_webhook(api, admin(), webhook)
    assert (found["state"], found["failingSince"]) == ("FAILING", clocked.iso_now())


async def test_an_endpoint_that_is_down_is_tried_by_one_event_at_a_time(
    clocked: ClockedApi, endpoint: Endpoint
) -> None:
    api = clocked.api
    alice, *others = await api.create_users("alice", *(f"user{number}" for number in range(30)))
    webhook = (await create_webhook(api, admin(), endpoint.url))["id"]
    endpoint.decide = lambda _: 500
    for other in others:
        await api.send(alice, other)
    await endpoint.wait_for_attempts(8)
    await clocked.settle()
    tried = len(endpoint.received)
    assert 8 <= tried <= 16
    await clocked.advance(5)
    await endpoint.wait_for_attempts(tried + 1)
    await clocked.settle()
    assert len(endpoint.received) == tried + 1
    endpoint.decide = lambda _: 200
    # After one success all are sent, also those that would be due later.
    await clocked.advance(300)
    await endpoint.wait_for(30)
    await wait_for_delivered(api, admin(), webhook, 30)
    await wait_for(lambda: clocked.api.services.webhooks.worker.running == 0)
    assert all(each["deliveredAt"] for each in await list_deliveries(api, admin(), webhook))


def test_delays_grow_to_a_day_with_jitter() -> None:
    chance = random.Random(1)
    delays = [delay_ms(failures, chance) for failures in range(1, 13)]
    for delay, plain in zip(delays, [*DELAYS_MS, *[DELAYS_MS[-1]] * 3], strict=True):
        assert plain <= delay <= 1.1 * plain
    assert len(set(delays[-4:])) == 4


def test_holds_begin_after_eight_failures_and_end_at_five_minutes() -> None:
    assert [hold_ms(failures) for failures in (1, 7, 8, 9, 100)] == [0, 0, 5_000, 10_000, 300_000]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, 0),
        ("", 0),
        ("soon", 0),
        ("-5", 0),
        ("120", 120_000),
        ("99999999999999", 86_400_000),
        ("Fri, 15 Jan 2027 08:01:00 GMT", 60_000),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0),
        ("Fri, 15 Jan 2099 07:00:00 GMT", 86_400_000),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str | None, expected: int) -> None:
    assert parse_retry_after(text, START_MS) == expected
