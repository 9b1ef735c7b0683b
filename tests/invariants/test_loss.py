"""I1, I2, I3, I7: whatever dies while messages are sent, no acknowledged one is lost or stored twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle

import pytest

from resolvers.base.errors import Unavailable
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.sessions.reading import mark_read
from server.services import Services
from store.base.errors import StoreError
from store.base.ids import MessageId, UserId, private_id
from store.messages.message import Message, MessageKind, ReservedMessage
from store.redis.cache import Call
from subscriptions.realtime.mailboxes import Lagged, QueueBudget
from tests.invariants.conftest import World, counted_unread
from tests.mailboxes import next_item
from tests.waiting import TIMEOUT_SECONDS

PEOPLE = [f"p{n}" for n in range(3)]
DEVICES = 4
ROUNDS = 24


async def _send_from_all(world: World, services: Services, sender: str) -> None:
    """Send from several devices of each user, so that every conversation always has messages under way."""

    async def device(name: int) -> None:
        for number in range(ROUNDS):
            peer = PEOPLE[(PEOPLE.index(sender) + 1 + number % (len(PEOPLE) - 1)) % len(PEOPLE)]
            text = f"{sender}-{name}-{number}"
            await world.send(services, sender, NewMessage(peer, None, text, key=text))

    await asyncio.gather(*(device(name) for name in range(DEVICES)))


async def _inject_while_sending(
    world: World, servers: Sequence[Services], inject: Callable[[], None], times: int
) -> None:
    """Send from all users, through the servers in turn, and inject a fault meanwhile."""
    sending = asyncio.gather(
        *(_send_from_all(world, server, sender) for server, sender in zip(cycle(servers), PEOPLE, strict=False))
    )
    injected = 0
    while injected < times and not sending.done():
        await asyncio.sleep(0.08)
        if not sending.done():
            await asyncio.to_thread(inject)
            injected += 1
    assert injected, "all messages were sent before the first fault"
    async with asyncio.timeout(90):
        await sending


async def _check_counts(world: World, services: Services) -> None:
    """Check I3 with the present cache and with an empty one."""
    for _ in range(2):
        for user in PEOPLE:
            total = 0
            for peer in PEOPLE:
                if peer != user:
                    conversation = private_id(UserId(user), UserId(peer))
                    session = await services.app.store.sessions.find(UserId(user), conversation)
                    assert session is not None
                    assert session.unread_count == await counted_unread(services, user, conversation)
                    total += session.unread_count
            snapshot = await services.app.store.sessions.find_many(UserId(user), ())
            assert snapshot.total_unread == total
        world.flush_redis()


@pytest.mark.parametrize(
    ("inject", "times"), [(World.flush_redis, 6), (World.step_down, 1)], ids=["Redis flushed", "MongoDB stepped down"]
)
async def test_a_fault_while_messages_are_sent_loses_and_doubles_nothing(
    world: World, inject: Callable[[World], None], times: int
) -> None:
    async with world.open() as services:
        await world.sign_in(services, *PEOPLE)
        await _inject_while_sending(world, [services], partial(inject, world), times)
        world.check()
        assert len(world.stored_with_content()) == len(PEOPLE) * DEVICES * ROUNDS
        await _check_counts(world, services)


async def test_two_servers_and_a_flushed_redis_agree_on_one_order(world: World) -> None:
    async with world.open() as one, world.open() as two:
        await world.sign_in(one, *PEOPLE)
        await _inject_while_sending(world, [one, two], world.flush_redis, times=3)
        world.check()
        assert len(world.stored_with_content()) == len(PEOPLE) * DEVICES * ROUNDS
        await _check_counts(world, two)


async def test_a_killed_redis_comes_back_empty_and_nothing_acknowledged_is_lost(world: World) -> None:
    async with world.open() as services:
        await world.sign_in(services, *PEOPLE)

        def restart() -> None:
            world.servers.kill_redis()
            world.servers.start_redis()

        await _inject_while_sending(world, [services], restart, times=2)
        world.check()
        await _check_counts(world, services)


def _message(services: Services, sender: str, receiver: str, text: str) -> Message:
    return Message(
        id=MessageId(services.app.store.ids.next()),
        conversation=private_id(UserId(sender), UserId(receiver)),
        sender=UserId(sender),
        kind=MessageKind.TEXT,
        text=text,
    )


async def _leave_behind(dead: Services, reserved: ReservedMessage, how_far: str) -> None:
    """Carry out a part of a message's delivery, as a server does that dies after it."""
    if how_far == "committed":
        await dead.app.store.commits.commit([reserved], [dead.app.store.clock.now_ms()], messages_first=False)
    elif how_far == "shown":
        dead.app.bus.send = lambda *_: None  # type: ignore[method-assign]
        await dead.app.delivery.send(reserved)


@pytest.mark.parametrize("in_use", [True, False], ids=["reader in use", "reader loaded later"])
@pytest.mark.parametrize("how_far", ["reserved", "committed", "shown"])
async def test_another_server_finishes_the_outbox_of_a_dead_one(
    world: World, monkeypatch: pytest.MonkeyPatch, how_far: str, in_use: bool
) -> None:
    """The server dies between the reservation and the fan-out. A subscriber receives the message once."""
    # Only this test finishes the outbox, however long its steps take.
    monkeypatch.setattr("subscriptions.delivery.housekeeping.TAKEOVER_MS", 3_600_000)
    async with world.open() as dead, world.open() as living:
        await world.sign_in(living, "anna", "ben")
        await send_message(living.app, UserId("anna"), NewMessage("ben", None, "first"))
        early = await living.app.hub.attach(UserId("ben"), QueueBudget(10)) if in_use else None
        reserved = await dead.app.store.outbox.reserve(_message(dead, "anna", "ben", "left behind"))
        assert isinstance(reserved, ReservedMessage)
        await _leave_behind(dead, reserved, how_far)
        mailbox = early or await living.app.hub.attach(UserId("ben"), QueueBudget(10))
        assert await living.housekeeper.sweep(range(1024), idle_ms=0) == 1
        async with asyncio.timeout(TIMEOUT_SECONDS):
            item = await next_item(mailbox)
        assert getattr(item, "event").message.text == "left behind"  # noqa: B009 - Delivered, not Lagged
        session = await living.app.store.sessions.find(UserId("ben"), reserved.message.conversation)
        assert session is not None
        assert (session.write_seq, session.unread_count) == (2, 2)
        await asyncio.gather(*living.app.bus._sending)
        assert await living.housekeeper.sweep(range(1024), idle_ms=0) == 0
        assert [row["t"] for row in world.stored()] == ["first", "left behind"]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await next_item(mailbox)


async def test_housekeeping_finishes_the_outbox_and_detects_a_lost_redis(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.delivery.housekeeping.TAKEOVER_MS", 500)
    async with world.open() as services:
        await world.sign_in(services, "anna", "ben")
        await send_message(services.app, UserId("anna"), NewMessage("ben", None, "first"))
        mailbox = await services.app.hub.attach(UserId("ben"), QueueBudget(10))
        await services.app.store.outbox.reserve(_message(services, "anna", "ben", "left behind"))
        async with asyncio.timeout(3 * TIMEOUT_SECONDS):
            item = await next_item(mailbox)
            assert getattr(item, "event").message.text == "left behind"  # noqa: B009 - Delivered, not Lagged
        world.flush_redis()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert isinstance(await next_item(mailbox), Lagged)


async def test_a_redis_behind_mongodb_gives_no_seq_twice(world: World) -> None:
    """The cached head is behind MongoDB, as after the restore of an old snapshot."""
    async with world.open() as services:
        store = services.app.store
        await world.sign_in(services, "anna", "ben")
        for number in range(5):
            await world.send(services, "anna", NewMessage("ben", None, f"m{number}"))
        conversation = private_id(UserId("anna"), UserId("ben"))
        head = store.keys.conversation(conversation)[0]
        await store.cache.one(Call("HSET", (head,), ("s", 2, "n", 2)))
        sent = [await world.send(services, "ben", NewMessage("anna", None, f"later {n}")) for n in range(3)]
        world.check()
        assert [row["t"] for row in world.stored()][:5] == [f"m{number}" for number in range(5)]
        assert [message.seq for message in sent] == [6, 7, 8]


async def test_reading_while_redis_is_flushed_never_goes_back(world: World) -> None:
    async with world.open() as services:
        await world.sign_in(services, "anna", "ben")
        conversation = private_id(UserId("anna"), UserId("ben"))
        seen = 0
        for number in range(12):
            await world.send(services, "anna", NewMessage("ben", None, f"m{number}"))
            if number % 3 == 1:
                world.flush_redis()
            try:
                session = await mark_read(services.app, UserId("ben"), conversation, None)
            except (StoreError, Unavailable):
                continue
            assert session.read_seq >= seen
            seen = session.read_seq
            assert session.unread_count == 0
        async with asyncio.timeout(TIMEOUT_SECONDS):
            # The last turn may have failed too.
            while seen < 12:
                with suppress(StoreError, Unavailable):
                    seen = (await mark_read(services.app, UserId("ben"), conversation, None)).read_seq
                    assert seen == 12
                await asyncio.sleep(0.05)
