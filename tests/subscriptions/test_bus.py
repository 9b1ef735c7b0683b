"""Servers hear each other again after their subscription was lost, and what was said meanwhile is not."""

from __future__ import annotations

import asyncio

from redis import Redis

from resolvers.callers import Caller, CallerRole
from resolvers.messages import NewMessage, send_message
from server.services import Services, open_services
from server.settings import Settings
from store.ids import UserId
from subscriptions.engine import Json
from subscriptions.events import MessageCreated
from subscriptions.hub import Delivered, Mailbox, Room
from tests.mailboxes import next_item

ANNA, BEN = UserId("anna"), UserId("ben")


async def _hears(mailbox: Mailbox) -> str:
    async with asyncio.timeout(5):
        item = await next_item(mailbox)
    assert isinstance(item, Delivered)
    assert isinstance(item.event, MessageCreated)
    return item.event.message.text


async def _send(services: Services, text: str) -> None:
    await send_message(services.app, ANNA, NewMessage(BEN, None, text))


async def test_a_lost_subscription_is_taken_up_again_and_nothing_was_missed_nor_does_a_broken_frame_end_it(
    settings: Settings,
) -> None:
    async with open_services(settings) as one, open_services(settings) as two:
        for user in (ANNA, BEN):
            await one.sign_in(Caller(user, CallerRole.USER, 2e9))
        mailbox = await two.app.hub.attach(BEN, Room(10))
        await _send(one, "heard")
        assert await _hears(mailbox) == "heard"
        with Redis.from_url(settings.redis_url) as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        await _send(one, "said to nobody")
        assert await _hears(mailbox) == "said to nobody"
        two.app.bus.on("broken", lambda frame: frame / 0)
        one.app.bus.tell("broken", {two.app.hub.server: 1})
        await _send(one, "heard again")
        assert await _hears(mailbox) == "heard again"
        begun, over = asyncio.Event(), asyncio.Event()

        async def answer(_question: Json) -> Json:
            begun.set()
            try:
                return await asyncio.Future()
            finally:
                over.set()

        two.app.bus.calls.answer_with(answer)
        asking = asyncio.create_task(one.app.bus.calls.ask(two.app.hub.server, {}))
        await begun.wait()
        await two.app.bus.close()
        assert over.is_set()
        asking.cancel()
