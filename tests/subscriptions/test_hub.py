"""The hub makes a complete, ordered stream of frames that are late, lost, repeated or out of order."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.users.callers import Caller, CallerRole
from server.services import Services, open_services
from server.settings import Settings
from store.base.errors import Unreachable
from store.base.ids import UserId
from store.messages.message import Message
from store.redis.cache import Call
from store.sessions.apply_messages import FanoutCalls, MessageDelta
from subscriptions.realtime import hub
from subscriptions.realtime.events.messages import MessageCreated
from subscriptions.realtime.mailboxes import Item, Lagged, Mailbox, MailboxEvent, Position, QueueBudget
from subscriptions.realtime.user_hub import UserHub
from tests.mailboxes import next_item
from tests.waiting import TIMEOUT_SECONDS

_names = itertools.count()


@pytest.fixture(scope="module")
async def services(module_settings: Settings) -> AsyncIterator[Services]:
    async with open_services(module_settings) as opened:
        yield opened


@dataclass(frozen=True)
class Frame:
    """One event as a server publishes it."""

    epoch: str
    tick: int
    previous: int
    event: MessageCreated


class HubUser:
    """A user whose frames the test delivers by hand to a hub of its own."""

    def __init__(self, services: Services) -> None:
        self.store = services.app.store
        self.services = services
        self.user = UserId(f"hub{next(_names)}")
        replay = services.app.replayer.since
        self.hub = UserHub(f"hub-{self.user}", self.store.sessions, replay, self.store.clock)
        self.mailbox: Mailbox

    async def listen(self, limit: int = 100) -> None:
        for name in (self.user, "writer"):
            await self.services.sign_in(Caller(UserId(name), CallerRole.USER, 2e9))
        self.mailbox = await self.hub.attach(self.user, QueueBudget(limit))

    async def send(self, text: str) -> Message:
        """Store a message to the user."""
        return (await send_message(self.services.app, UserId("writer"), NewMessage(self.user, None, text))).message

    async def receive_message(self, text: str) -> Frame:
        """Store and log a message to the user. Returns its frame, which the test delivers."""
        return await self.frame_of(await self.send(text))

    async def frame_of(self, message: Message) -> Frame:
        log = await self.store.cache.one(
            Call("XREVRANGE", (self.store.keys.of_user(self.user, "log"),), ("+", "-", "COUNT", 1))
        )
        tick, flat = log[0]
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        epoch, *_ = await self.store.sessions.attach(self.user, "nobody", 0)
        return Frame(epoch, int(tick.split(b"-")[0]), int(fields[b"p"]), MessageCreated(message))

    def deliver(self, *frames: Frame) -> None:
        for frame in frames:
            self.hub.receive(frame.event, [(self.user, frame.epoch, frame.tick, frame.previous)])

    async def next_texts(self, count: int) -> list[str]:
        """Return the texts of the next events."""
        return [_text(item) for item in [await self.next() for _ in range(count)]]

    async def next(self) -> Item:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await next_item(self.mailbox)

    async def hears_nothing_more(self) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.08):
                await next_item(self.mailbox)


def _text(item: Item) -> str:
    assert isinstance(item, MailboxEvent), item
    assert isinstance(item.event, MessageCreated)
    return item.event.message.text


@pytest.fixture
async def listener(services: Services) -> AsyncIterator[HubUser]:
    made = HubUser(services)
    await made.listen()
    yield made
    await made.hub.close()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_frames_in_any_order_are_delivered_in_clock_order(listener: HubUser, order: tuple[int, ...]) -> None:
    frames = [await listener.receive_message(text) for text in "abc"]
    listener.deliver(*(frames[index] for index in order))
    assert await listener.next_texts(3) == ["a", "b", "c"]
    await listener.hears_nothing_more()


async def test_a_lost_frame_is_read_from_the_log(listener: HubUser) -> None:
    frames = [await listener.receive_message(text) for text in "abcd"]
    listener.deliver(frames[0], frames[3])
    assert await listener.next_texts(4) == ["a", "b", "c", "d"]
    await listener.hears_nothing_more()


async def test_a_repeated_frame_is_delivered_once(listener: HubUser) -> None:
    frames = [await listener.receive_message(text) for text in "ab"]
    listener.deliver(frames[0], frames[0], frames[1], frames[0], frames[1])
    assert await listener.next_texts(2) == ["a", "b"]
    await listener.hears_nothing_more()


async def test_lost_frames_at_the_end_are_found_when_the_bus_comes_back(listener: HubUser) -> None:
    for text in "ab":
        await listener.receive_message(text)
    await listener.hears_nothing_more()
    listener.hub.resync()
    assert await listener.next_texts(2) == ["a", "b"]


async def test_lost_frames_at_the_end_are_found_by_the_periodic_check(listener: HubUser) -> None:
    await listener.receive_message("a")
    await listener.hub.check_feeds()
    assert await listener.next_texts(1) == ["a"]
    await listener.hub.check_feeds()
    await listener.hears_nothing_more()


async def test_a_user_that_cannot_be_checked_does_not_stop_others(
    listener: HubUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "_OWNERS_AT_ONCE", 1)
    unlucky = await listener.hub.attach(UserId(f"{listener.user}x"), QueueBudget())
    listener.hub._feeds = dict(reversed(listener.hub._feeds.items()))
    register = listener.hub._register

    async def fails(feed: Any) -> Position:
        if feed.owner == unlucky.owner:
            raise Unreachable("not that one")
        return await register(feed)

    async def fails_too(users: Sequence[UserId], *args: Any) -> Any:
        if unlucky.owner in users:
            raise Unreachable("not that one")
        return await read_positions(users, *args)

    read_positions = listener.store.sessions.read_positions
    monkeypatch.setattr(listener.hub, "_register", fails)
    monkeypatch.setattr(listener.store.sessions, "read_positions", fails_too)
    await listener.receive_message("a")
    with pytest.raises(Unreachable):
        await listener.hub.check_feeds()
    assert await listener.next_texts(1) == ["a"]
    listener.hub.detach(unlucky)


async def test_a_subscriber_that_does_not_read_gets_a_reset_and_bounded_memory(services: Services) -> None:
    slow = HubUser(services)
    await slow.listen(limit=3)
    frames = [await slow.receive_message(text) for text in "abcdef"]
    for frame in frames:
        slow.deliver(frame)
    assert isinstance(await slow.next(), Lagged)
    following = await slow.receive_message("g")
    slow.deliver(following)
    received = [await slow.next()]
    while _text(received[-1]) != "g":
        received.append(await slow.next())
    await slow.hears_nothing_more()
    await slow.hub.close()


async def test_a_lost_log_leads_to_a_reset(listener: HubUser) -> None:
    frame = await listener.receive_message("a")
    listener.deliver(frame)
    assert await listener.next_texts(1) == ["a"]
    keys = listener.store.keys.user(listener.user)
    await listener.store.cache.one(Call("DEL", keys))
    await listener.send("b")
    listener.hub.resync()
    assert isinstance(await listener.next(), Lagged)
    listener.deliver(await listener.receive_message("c"))
    assert await listener.next_texts(1) == ["c"]


async def test_events_delivered_during_a_log_read_are_not_repeated(
    listener: HubUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[Frame] = []

    async def log_is_gone(*_: object) -> None:
        received.append(await listener.receive_message("meanwhile"))
        listener.deliver(*received)

    monkeypatch.setattr(listener.hub, "_replay", log_is_gone)
    listener.hub.resync()
    item = await listener.next()
    if isinstance(item, MailboxEvent):
        item = await listener.next()
    assert isinstance(item, Lagged)
    assert (item.position.epoch, item.position.tick) == (received[0].epoch, received[0].tick)
    listener.deliver(*received)
    await listener.hears_nothing_more()


async def test_two_subscribers_receive_the_same_events_since_their_start(listener: HubUser) -> None:
    listener.deliver(await listener.receive_message("a"))
    late = await listener.hub.attach(listener.user, QueueBudget(10))
    listener.deliver(await listener.receive_message("b"))
    assert await listener.next_texts(2) == ["a", "b"]
    assert _text(await next_item(late)) == "b"
    listener.hub.detach(late)
    listener.deliver(await listener.receive_message("c"))
    assert await listener.next_texts(1) == ["c"]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await next_item(late)


async def test_a_subscriber_that_left_costs_nothing_and_can_come_back(listener: HubUser) -> None:
    listener.hub.detach(listener.mailbox)
    lost = await listener.receive_message("while away")
    listener.deliver(lost)
    listener.mailbox = await listener.hub.attach(listener.user, QueueBudget(10))
    listener.deliver(lost, await listener.receive_message("back"))
    assert await listener.next_texts(1) == ["back"]


async def test_an_early_frame_before_a_lost_one_is_read_from_the_log_on_joining(
    listener: HubUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener.hub.detach(listener.mailbox)
    register = listener.hub._register

    async def overtaken(feed: Any) -> Position:
        position = await register(feed)
        _, second = await listener.receive_message("lost"), await listener.receive_message("early")
        listener.deliver(second)
        return position

    with monkeypatch.context() as patched:
        patched.setattr(listener.hub, "_register", overtaken)
        listener.mailbox = await listener.hub.attach(listener.user, QueueBudget(10))
    assert await listener.next_texts(2) == ["lost", "early"]


async def test_frames_lost_while_a_subscriber_joins_are_read_from_the_log(
    listener: HubUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener.hub.detach(listener.mailbox)
    register = listener.hub._register

    async def deaf(feed: Any) -> Position:
        position = await register(feed)
        await listener.receive_message("said to nobody")
        listener.hub.resync()
        return position

    with monkeypatch.context() as patched:
        patched.setattr(listener.hub, "_register", deaf)
        listener.mailbox = await listener.hub.attach(listener.user, QueueBudget(10))
    assert await listener.next_texts(1) == ["said to nobody"]


async def test_early_frames_are_buffered_within_bounds_and_none_is_lost(
    listener: HubUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "_MAX_EARLY", 2)
    frames = [await listener.receive_message(text) for text in "abcdef"]
    listener.deliver(*frames[1:])
    assert len(listener.hub._feeds[listener.user].early) == 2
    assert await listener.next_texts(6) == list("abcdef")
    await listener.hears_nothing_more()


async def test_a_subscriber_that_leaves_during_delivery_frees_its_memory(listener: HubUser) -> None:
    budget = QueueBudget(10)
    both = [await listener.hub.attach(listener.user, budget) for _ in range(2)]

    def leave() -> None:
        for mailbox in both:
            listener.hub.detach(mailbox)

    for mailbox in both:
        mailbox.on_ready(leave)
    listener.deliver(await listener.receive_message("a"))
    assert budget.used == 0
    assert await listener.next_texts(1) == ["a"]


async def test_a_change_names_its_position_in_the_chain(listener: HubUser) -> None:
    message = (await listener.receive_message("a")).event.message._replace(seq=2)
    conversation = message.conversation
    user, event = listener.user, MessageCreated.log_entry(message)
    delta = MessageDelta(conversation, 2, 2, True, 1, event, [user], {user: "own"})
    results = []
    for _ in range(2):
        calls = FanoutCalls(listener.store.cache, listener.store.clock.now_ms())
        results.append(calls.add_message(delta))
        await calls.run(listener.store.cache.run)
    outcome, again = (result.others[0][1] for result in results)
    assert outcome.tick == outcome.previous + 1
    assert (again.changed, again.tick) == (False, outcome.tick)


async def test_a_frame_of_a_former_epoch_does_not_count_for_the_loaded_state(listener: HubUser) -> None:
    """After a loss of the cache, frames of another server may have later ticks of the former epoch."""
    before = await listener.receive_message("before")
    listener.hub.detach(listener.mailbox)
    attaching = asyncio.create_task(listener.hub.attach(listener.user, QueueBudget(10)))
    await asyncio.sleep(0)
    recipient = (listener.user, "a former epoch", before.tick + 1_000_000, before.tick)
    listener.hub.receive(before.event, [recipient])
    listener.mailbox = await attaching
    listener.deliver(await listener.receive_message("after"))
    assert await listener.next_texts(1) == ["after"]
