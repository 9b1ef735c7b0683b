"""Servers receive each other's frames again after a lost subscription, and lost frames cause no gap."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.users.callers import Caller, CallerRole
from server.services import Services, open_services
from server.settings import Settings
from store.base.errors import Unreachable
from store.base.ids import ConversationId, MessageId, UserId
from store.messages.message import Message, MessageKind
from store.redis.cache import Call
from store.sessions.apply_messages import FanoutResult
from store.sessions.session_rows import Tick
from subscriptions.realtime.bus import _EventFrame
from subscriptions.realtime.events.base import Event
from subscriptions.realtime.events.messages import MessageCreated
from subscriptions.realtime.mailboxes import Mailbox, MailboxEvent, QueueBudget
from subscriptions.realtime.outgoing_events import OutgoingEvents
from subscriptions.transport.engine import Json
from tests.conftest import send_to_redis
from tests.mailboxes import next_item
from tests.waiting import TIMEOUT_SECONDS

ANNA, BEN = UserId("anna"), UserId("ben")


async def _next_text(mailbox: Mailbox) -> str:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        item = await next_item(mailbox)
    assert isinstance(item, MailboxEvent)
    assert isinstance(item.event, MessageCreated)
    return item.event.message.text


async def _send(services: Services, text: str) -> None:
    await send_message(services.app, ANNA, NewMessage(BEN, None, text))


async def test_a_lost_subscription_is_resumed_and_a_broken_frame_does_not_end_it(
    settings: Settings,
) -> None:
    async with open_services(settings) as one, open_services(settings) as two:
        for user in (ANNA, BEN):
            await one.sign_in(Caller(user, CallerRole.USER, 2e9))
        mailbox = await two.app.hub.attach(BEN, QueueBudget(10))
        await _send(one, "heard")
        assert await _next_text(mailbox) == "heard"
        send_to_redis(settings.redis_url, "CLIENT", "KILL", "TYPE", "pubsub")
        await _send(one, "said to nobody")
        assert await _next_text(mailbox) == "said to nobody"
        two.app.bus.on_frame("broken", lambda frame: frame / 0)
        one.app.bus.send_frames("broken", {two.app.hub.server: 1})
        await _send(one, "heard again")
        assert await _next_text(mailbox) == "heard again"
        begun, over = asyncio.Event(), asyncio.Event()

        async def answer(_question: Json) -> Json:
            begun.set()
            try:
                return await asyncio.Future()
            finally:
                over.set()

        two.app.bus.calls.answer_kind("wait", answer)
        request = asyncio.create_task(one.app.bus.calls.ask(two.app.hub.server, {"wait": 1}))
        await begun.wait()
        await two.app.bus.close()
        assert over.is_set()
        request.cancel()


async def test_ticks_are_stored_although_frames_cannot_be_sent(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_services(settings) as services:
        bus, stored = services.app.bus, list[Tick]()

        async def fail(_calls: Sequence[Call]) -> list[Any]:
            raise Unreachable("Redis does not answer")

        async def keep(ticks: Sequence[Tick]) -> None:
            stored.extend(ticks)

        with monkeypatch.context() as patch:
            patch.setattr(bus._cache, "run_in_background", fail)
            patch.setattr(bus._rows, "keep_ticks", keep)
            frame = _EventFrame("other", Call("PUBLISH", (), ("c", b"{}")), ())
            await bus._send([frame], [Tick(ANNA, ConversationId("g_1"), 5)], ())
        assert stored == [Tick(ANNA, ConversationId("g_1"), 5)]


async def test_events_in_several_parts_are_the_same_for_all_recipients(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that are one object are executed once."""
    async with open_services(settings) as services:
        received: dict[UserId, list[Event]] = {}

        def receive(event: Event, recipients: list[Any]) -> None:
            for user, *_ in recipients:
                received.setdefault(user, []).append(event)

        monkeypatch.setattr(services.app.hub, "receive", receive)
        group = ConversationId("g_1")
        bodies = [
            MessageCreated(Message(MessageId(seq), group, ANNA, MessageKind.TEXT, "said", seq, seq)).encode()
            for seq in (1, 2)
        ]
        for user in (ANNA, BEN):
            frame = orjson.dumps({"events": [[body, [[user, "epoch", 1, 0]]] for body in bodies]})
            await services.app.store.cache.one(
                Call("PUBLISH", (), (services.app.store.keys.channel(services.app.hub.server), frame))
            )
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(received.get(BEN, ())) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    assert [event.message.seq for event in received[ANNA] if isinstance(event, MessageCreated)] == [1, 2]
    assert all(one is other for one, other in zip(received[ANNA], received[BEN], strict=True))


async def test_a_large_batch_is_delivered_in_order_and_in_several_turns(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a burst in a large group would stop all other work of the process."""
    async with open_services(settings) as services:
        bus, server = services.app.bus, services.app.hub.server
        turn, received = 0, list[tuple[int, int]]()

        def receive(event: Event, recipients: list[Any]) -> None:
            assert isinstance(event, MessageCreated)
            received.append((event.message.seq, turn))
            if event.message.seq == 2:
                raise ZeroDivisionError

        async def count_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        async def receive_all(seqs: range) -> None:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while len(received) < len(seqs):  # noqa: ASYNC110
                    await asyncio.sleep(0)
            assert [seq for seq, _ in received] == list(seqs)
            turns = [at for _, at in received]
            assert max(turns.count(at) for at in turns) <= 2
            received.clear()

        monkeypatch.setattr(services.app.hub, "receive", receive)
        counting = asyncio.create_task(count_turns())
        users = [(UserId(f"user{number}"), "epoch", 1, 0) for number in range(300)]
        events = [
            MessageCreated(Message(MessageId(seq), ConversationId("g_1"), ANNA, MessageKind.TEXT, "said", seq, seq))
            for seq in range(1, 9)
        ]
        for some in (events[:5], events[5:]):
            outgoing = OutgoingEvents()
            for event in some:
                outgoing.add_message(event, FanoutResult({server: users}), 0)
            bus.send(outgoing)
        await receive_all(range(1, 9))
        channel = services.app.store.keys.channel(server)
        frames = [orjson.dumps({"events": [[event.encode(), users]]}) for event in events]
        cache = services.app.store.cache
        await cache.run([cache.publish_call(channel, frame) for frame in frames])
        await receive_all(range(1, 9))
        counting.cancel()
