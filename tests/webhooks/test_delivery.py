"""Events arrive at endpoints: signed, in order per conversation, and again after a failure."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest
from standardwebhooks import WebhookVerificationError

from tests.api.client import Api, gather_all
from tests.waiting import wait_for
from tests.webhooks.calls import (
    ROTATE,
    admin,
    create_webhook,
    find_webhook,
    redeliver,
    wait_for_delivered,
    wait_for_failure,
)
from tests.webhooks.conftest import ClockedApi, settle
from tests.webhooks.endpoint import Endpoint, answer, hang, open_endpoint, reset


async def test_events_of_a_message_arrive_signed_and_in_order(api: Api, endpoint: Endpoint) -> None:
    alice, bob = await api.create_users("alice", "bob")
    webhook = await create_webhook(api, admin(), endpoint.url)
    assert webhook["secret"].startswith("whsec_")
    message = (await api.send(alice, bob, "one"))["message"]
    await api.edit(alice, message["id"], "two")
    await endpoint.wait_for(2)
    await api.recall(alice, message["id"])
    events = await endpoint.wait_for(3)
    assert [each.verify(webhook["secret"])["type"] for each in events] == [
        "MESSAGE_CREATED",
        "MESSAGE_UPDATED",
        "MESSAGE_RECALLED",
    ]
    assert {each.data["message"]["id"] for each in events} == {message["id"]}
    last = events[-1].data["message"]
    assert (last["content"], last["state"], last["seq"]) == (None, "RECALLED", 1)
    assert (last["sender"]["id"], last["sender"]["isBot"]) == (alice, False) and last["conversationId"] == message[
        "conversationId"
    ]
    assert len({each.event_id for each in events}) == 3
    deliveries = await wait_for_delivered(api, admin(), webhook["id"], 3)
    assert [each["eventId"] for each in deliveries] == [each.event_id for each in events]
    assert all(each["status"] == 204 and each["attempts"] == 1 and each["deliveredAt"] for each in deliveries)


async def test_a_wrong_secret_verifies_nothing(api: Api, endpoint: Endpoint) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await create_webhook(api, admin(), endpoint.url)
    await api.send(alice, bob)
    (event,) = await endpoint.wait_for(1)
    with pytest.raises(WebhookVerificationError):
        event.verify("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


async def test_both_secrets_sign_after_a_rotation(api: Api, endpoint: Endpoint) -> None:
    alice, bob = await api.create_users("alice", "bob")
    old = await create_webhook(api, admin(), endpoint.url)
    new = (await api.data(admin(), ROTATE, id=old["id"]))["rotateWebhookSecret"]
    assert new["secret"] != old["secret"]
    await api.send(alice, bob)
    (event,) = await endpoint.wait_for(1)
    assert event.headers["webhook-signature"].count("v1,") == 2
    assert event.verify(new["secret"]) == event.verify(old["secret"])
    assert (await find_webhook(api, admin(), old["id"]))["secret"] is None


async def test_a_rotation_holds_for_events_that_are_being_sent(
    api: Api, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolvers.webhooks.outgoing.deliverer._FRESH_SECONDS", 0.0)
    alice, bob = await api.create_users("alice", "bob")
    old = await create_webhook(api, admin(), endpoint.url)
    is_rotated = asyncio.Event()

    async def answer_later(writer: asyncio.StreamWriter) -> None:
        await is_rotated.wait()
        writer.write(answer(200))
        await writer.drain()

    endpoint.decide = lambda _: 500
    await api.send(alice, bob, "0")
    await wait_for_failure(api, admin(), old["id"])
    await api.send(alice, bob, "1")
    await settle(api)
    endpoint.decide = lambda _: answer_later if len(endpoint.received) == 1 else 200
    await redeliver(api, admin(), old["id"], since="2020-01-01T00:00:00.000Z")
    await endpoint.wait_for_attempts(2)
    new = (await api.data(admin(), ROTATE, id=old["id"]))["rotateWebhookSecret"]
    is_rotated.set()
    (event,) = await endpoint.wait_for(1)
    assert event.data["message"]["content"] == "1"
    assert event.verify(new["secret"]) == event.verify(old["secret"])


async def cut_off(writer: asyncio.StreamWriter) -> None:
    """Close the connection in the middle of an answer."""
    writer.write(answer(200, b"x" * 10)[:-5])
    await writer.drain()


FAILURES = {
    "500": 500,
    "404": 404,
    "redirect": answer(302, location="http://127.0.0.1:1/"),
    "reset": reset,
    "cut off": cut_off,
    "nonsense": b"\x00\x01 nonsense\r\n\r\n",
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failed_event_is_sent_again_and_later_ones_wait_for_it(
    clocked: ClockedApi, endpoint: Endpoint, failure: str
) -> None:
    api = clocked.api
    alice, bob = await api.create_users("alice", "bob")
    webhook = await create_webhook(api, admin(), endpoint.url)
    reply: Any = FAILURES[failure]
    endpoint.decide = lambda _: reply if not endpoint.received else 204
    for number in range(3):
        await api.send(alice, bob, str(number))
    first, *_ = await wait_for_failure(api, admin(), webhook["id"])
    assert first["nextAttemptAt"] is not None
    assert (await find_webhook(api, admin(), webhook["id"]))["state"] == "FAILING"
    await clocked.advance(6)
    await endpoint.wait_for(3)
    assert endpoint.texts() == ["0", "1", "2"]
    assert len(endpoint.received) == 4 and endpoint.received[0].event_id == endpoint.received[1].event_id
    first, *_ = await wait_for_delivered(api, admin(), webhook["id"], 3)
    assert first["attempts"] == 2 and first["nextAttemptAt"] is None
    after = await find_webhook(api, admin(), webhook["id"])
    assert after["state"] == "ACTIVE" and after["failingSince"] is None


async def test_conversations_do_not_wait_for_each_other(api: Api, endpoint: Endpoint) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    webhook = await create_webhook(api, admin(), endpoint.url)
    blocked = (await api.send(alice, bob, "blocked"))["message"]["conversationId"]
    endpoint.decide = lambda request: 500 if request.data["message"]["conversationId"] == blocked else 204
    await api.send(alice, bob, "later")
    await gather_all(*(api.send(alice, carol, str(number)) for number in range(5)))
    await endpoint.wait_for(5)
    await wait_for_failure(api, admin(), webhook["id"])
    assert blocked not in {each.data["message"]["conversationId"] for each in endpoint.taken}
    deliveries = await wait_for_delivered(api, admin(), webhook["id"], 5)
    waiting = [each for each in deliveries if each["deliveredAt"] is None]
    assert [each["attempts"] for each in waiting][1:] == [0] and waiting[0]["status"] == 500
    assert waiting[0]["nextAttemptAt"] is not None


async def test_a_slow_endpoint_delays_no_other(api: Api, endpoint: Endpoint) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    async with open_endpoint(lambda _: hang) as slow:
        await create_webhook(api, admin(), slow.url)
        await create_webhook(api, admin(), endpoint.url)
        for other in (bob, carol):
            await api.send(alice, other)
        await slow.wait_for_attempts(1)
        await endpoint.wait_for(2)
        await api.send(alice, bob, "next")
        await endpoint.wait_for(3)
        assert not slow.taken


async def test_a_name_that_is_never_resolved_delays_no_other(
    api: Api, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, asked, ended = socket.getaddrinfo, 0, threading.Event()

    def find_or_hang(host: Any, *more: Any, **options: Any) -> Any:
        nonlocal asked
        if str(host).endswith("dead.example"):
            asked += 1
            assert ended.wait(60)
            raise OSError("no answer")
        return find(host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", find_or_hang)
    monkeypatch.setattr("resolvers.webhooks.outgoing.webhook_parts._RESOLVE_SECONDS", 0.1)
    try:
        alice, *others = await api.create_users("alice", *(f"user{number}" for number in range(10)))
        for host in ("dead.example", "other.dead.example"):
            await create_webhook(api, admin(), f"https://{host}/")
        for other in others:
            await api.send(alice, other)
        await wait_for(lambda: asked >= 2)
        await create_webhook(api, admin(), endpoint.url)
        await api.send(alice, others[0])
        await endpoint.wait_for(1)
    finally:
        ended.set()


async def test_a_long_answer_is_cut_off_and_counts(api: Api, endpoint: Endpoint) -> None:
    alice, bob = await api.create_users("alice", "bob")
    webhook = await create_webhook(api, admin(), endpoint.url)
    written = 0

    async def write_much(writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n")
        for _ in range(1_000):
            writer.write(b"x" * 10_000)
            await writer.drain()
            written += 10_000

    endpoint.decide = lambda _: write_much
    await api.send(alice, bob)
    await wait_for_delivered(api, admin(), webhook["id"], 1)
    assert written < 10_000_000


async def test_slow_endpoints_leave_places_to_others(
    api: Api, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolvers.webhooks.outgoing.delivery_worker.WEBHOOKS_AT_ONCE", 3)
    monkeypatch.setattr("resolvers.webhooks.outgoing.delivery_worker.SLOW_AT_ONCE", 1)
    monkeypatch.setattr("resolvers.webhooks.outgoing.deliverer.SLOW_SECONDS", 0.1)
    alice, bob = await api.create_users("alice", "bob")

    async def answer_late(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.3)
        writer.write(answer(200))
        await writer.drain()

    async with open_endpoint(lambda _: answer_late) as slow:
        for _ in range(4):
            await create_webhook(api, admin(), slow.url)
        for number in range(60):
            await api.send(alice, bob, str(number))
        await slow.wait_for_attempts(4)
        await create_webhook(api, admin(), endpoint.url)
        await api.send(alice, bob, "last")
        await endpoint.wait_for(1)
        assert len(slow.received) < 4 * 60


async def test_webhooks_take_turns_when_all_places_are_taken(
    api: Api, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolvers.webhooks.outgoing.delivery_worker.WEBHOOKS_AT_ONCE", 1)
    monkeypatch.setattr("resolvers.webhooks.outgoing.delivery_worker.TURN_SECONDS", 0.2)
    monkeypatch.setattr("resolvers.webhooks.outgoing.deliverer.SLOW_SECONDS", 60.0)
    alice, bob = await api.create_users("alice", "bob")

    both_wait = asyncio.Event()

    async def answer_late(writer: asyncio.StreamWriter) -> None:
        await both_wait.wait()
        await asyncio.sleep(0.1)
        writer.write(answer(200))
        await writer.drain()

    async with open_endpoint(lambda _: answer_late) as slow:
        await create_webhook(api, admin(), slow.url)
        await gather_all(*(api.send(alice, bob, str(number)) for number in range(40)))
        await slow.wait_for_attempts(1)
        await create_webhook(api, admin(), endpoint.url)
        await api.send(alice, bob, "last")
        both_wait.set()
        await endpoint.wait_for(1)
        assert len(slow.received) < 41
