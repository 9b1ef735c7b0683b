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
from store.sessions.session_rows import Tick
from subscriptions.realtime.bus import _EventFrame
from subscriptions.realtime.events.base import Event
from subscriptions.realtime.events.messages import MessageCreated
from subscriptions.realtime.mailboxes import Mailbox, MailboxEvent, QueueBudget
from subscriptions.transport.engine import Json
from tests.conftest import send_to_redis
from tests.mailboxes import next_item

ANNA, BEN = UserId("anna"), UserId("ben")


async def _next_text(mailbox: Mailbox) -> str:
    async with asyncio.timeout(5):
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

        two.app.bus.calls.answer_with(answer)
        request = asyncio.create_task(one.app.bus.calls.ask(two.app.hub.server, {}))
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
        async with asyncio.timeout(5):
            while len(received.get(BEN, ())) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    assert [event.message.seq for event in received[ANNA] if isinstance(event, MessageCreated)] == [1, 2]
    assert all(one is other for one, other in zip(received[ANNA], received[BEN], strict=True))
