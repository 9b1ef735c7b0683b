"""Live events go from the hub to a sink in one call while it is writable, and wait in the mailbox otherwise."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest

from schema.base.loaders import Loaders
from store.base.ids import ConversationId, MessageId, UserId
from store.messages.message import Message, MessageKind
from subscriptions.realtime.events.messages import MessageCreated
from subscriptions.realtime.mailboxes import QueueBudget
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest
from tests.api.client import TIMEOUT_SECONDS, Api, make_caller
from tests.waiting import wait_for

_names = itertools.count()


def unique_subscription(fields: str = "content") -> str:
    """Return a subscription with a selection that no other test uses."""
    return f"""subscription {{ messageEvents {{ ... on MessageCreated {{ own{next(_names)}: cursor
        message {{ {fields} }} }} ... on CaughtUp {{ reset }} }} }}"""


class Sink:
    """A sink whose peer reads as the test decides. It takes what waits when it becomes writable."""

    def __init__(self, budget: QueueBudget) -> None:
        self.budget = budget
        self.is_writable = True
        self.texts: list[str] = []
        self.cursors: set[str] = set()
        self.capacity = 1_000
        self.on_write: Callable[[], None] = lambda: None
        self.stream: Any

    async def open(self, api: Api, user: str, query: str) -> None:
        """Subscribe, and take CaughtUp."""
        request, engine = GraphQLRequest(query), api.services.engine
        context = ConnectionContext(make_caller(user), "test", queue_budget=self.budget)
        await api.services.sign_in(make_caller(user))
        self.stream = await engine.subscribe(await engine.prepare(request, context.caller), request, context)
        self.stream.on_ready(self.take_available)
        self.stream.write_to(self)
        self.take_available()
        assert self.texts == ["reset: False"]
        self.texts.clear()

    def take_available(self) -> None:
        while self.is_writable and (response := self.stream.take()) is not None:
            self.write(response)

    def write(self, response: bytes) -> None:
        assert self.is_writable
        event = orjson.loads(response)["data"]["messageEvents"]
        if "reset" in event:
            self.texts.append(f"reset: {event['reset']}")
        else:
            self.texts.append(event.pop("message")["content"])
            self.cursors |= set(event.values())
        self.capacity -= 1
        self.is_writable = self.capacity > 0
        self.on_write()

    def read(self, capacity: int = 1_000) -> None:
        """Let the peer read some responses."""
        self.capacity, self.is_writable = capacity, True
        self.take_available()

    async def until(self, texts: Sequence[str]) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(self.texts) < len(texts):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        assert self.texts == list(texts)


class Burst:
    """Users with a sink each, and events that the test delivers to all of them."""

    def __init__(self, api: Api, users: Sequence[str]) -> None:
        self.api = api
        self.hub = api.services.app.hub
        self.users = [UserId(user) for user in users]
        self.sinks: list[Sink] = []
        self._numbers = itertools.count(1)

    async def open(self, query: str, limit: int = 100) -> list[Sink]:
        self.sinks = [Sink(QueueBudget(limit)) for _ in self.users]
        for user, sink in zip(self.users, self.sinks, strict=True):
            await sink.open(self.api, user, query)
        return self.sinks

    def deliver(self, *texts: str) -> None:
        for text in texts:
            number = next(self._numbers)
            kind, group = MessageKind.TEXT, ConversationId("g_1")
            message = Message(MessageId(number), group, self.users[0], kind, text, number, number)
            recipients = []
            for user in self.users:
                position = self.hub._feeds[user].position
                assert position is not None
                recipients.append((user, position.epoch, position.tick + 5, position.tick))
            self.hub.receive(MessageCreated(message), recipients)


@pytest.fixture
async def burst(api: Api) -> Burst:
    return Burst(api, await api.create_users(*(f"user{number}" for number in range(5))))


async def test_a_burst_is_written_in_order_without_a_callback_of_the_loop(
    burst: Burst, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, executed = burst.api.services.engine, list[object]()
    execute = engine.execute_event

    def count_and_execute(execution: Any, event: object, viewer: Any, user: Any) -> Any:
        executed.append(event)
        return execute(execution, event, viewer, user)

    monkeypatch.setattr(engine, "execute_event", count_and_execute)
    sinks = await burst.open(unique_subscription("content sender { displayName }"))
    burst.deliver("known from now on")
    for sink in sinks:
        await sink.until(["known from now on"])
    executed.clear()
    loop, scheduled = asyncio.get_running_loop(), list[object]()
    call_soon = loop.call_soon
    with monkeypatch.context() as patch:
        patch.setattr(loop, "call_soon", lambda *args, **options: scheduled.append(args) or call_soon(*args, **options))
        burst.deliver("a", "b", "c")
    assert [sink.texts[1:] for sink in sinks] == [["a", "b", "c"]] * len(sinks)
    assert (len(executed), scheduled) == (3, [])
    assert len(set().union(*(sink.cursors for sink in sinks))) == 4 * len(sinks)


async def test_events_wait_while_a_peer_does_not_read_and_stay_in_order(burst: Burst) -> None:
    slow, *others = await burst.open(unique_subscription())
    slow.capacity = 2
    burst.deliver(*"abcd")
    assert (slow.texts, slow.budget.used) == (["a", "b"], 2)
    assert all(sink.texts == ["a", "b", "c", "d"] for sink in others)
    slow.read(1)
    burst.deliver("e")
    assert slow.texts == ["a", "b", "c"]
    slow.read()
    burst.deliver("f")
    assert (slow.texts, slow.budget.used) == (list("abcdef"), 0)
    assert all((sink.texts, sink.budget.used) == (list("abcdef"), 0) for sink in others)


async def test_a_peer_that_does_not_read_a_long_burst_gets_a_reset_and_bounded_memory(burst: Burst) -> None:
    slow, *others = await burst.open(unique_subscription(), limit=3)
    slow.capacity = 1
    burst.deliver(*"abcdefgh")
    assert slow.texts == ["a"] and slow.budget.used <= 3
    slow.read()
    assert slow.texts[1] == "reset: True"
    assert slow.budget.used == 0
    burst.deliver("i")
    assert slow.texts[-1] == "i"
    assert all(sink.texts == list("abcdefghi") for sink in others)


async def test_an_event_that_needs_a_read_holds_back_the_later_ones(
    burst: Burst, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks = await burst.open(unique_subscription("content sender { displayName }"))
    with monkeypatch.context() as patch:
        patch.setattr(Loaders, "user", lambda loaders, user: loaders.users.load(user))
        burst.deliver("read")
    burst.deliver("a", "b")
    assert all(sink.texts == [] and sink.budget.used == 2 for sink in sinks)
    for sink in sinks:
        await sink.until(["read", "a", "b"])
        assert sink.budget.used == 0
    burst.deliver("c")
    assert all(sink.texts[-1] == "c" for sink in sinks)


async def test_a_subscription_that_ends_in_a_burst_receives_nothing_more(burst: Burst) -> None:
    leaving, *others = await burst.open(unique_subscription())
    leaving.on_write = leaving.stream.close
    burst.users.append(burst.users.pop(0))
    burst.deliver("a")
    assert leaving.texts == ["a"] and leaving.budget.used == 0
    assert not burst.hub.has_mailbox(burst.users.pop())
    burst.deliver("b")
    assert all(sink.texts == ["a", "b"] for sink in others)
    assert leaving.texts == ["a"]


async def test_a_sink_that_fails_is_reset_and_does_not_affect_others(burst: Burst) -> None:
    broken, *others = await burst.open(unique_subscription())

    def fail() -> None:
        broken.on_write = lambda: None
        broken.texts.pop()
        raise ZeroDivisionError

    broken.on_write = fail
    burst.deliver("a", "b")
    # The report of the failure takes time, so the events after it may be written in the next turn.
    await wait_for(lambda: broken.texts == ["reset: True", "b"])
    await wait_for(lambda: all(sink.texts == ["a", "b"] for sink in others))


async def test_each_user_gets_their_own_response_if_it_depends_on_them(burst: Burst) -> None:
    sinks = await burst.open(unique_subscription("content idempotencyKey sender { id }"))
    burst.deliver("a", "b")
    assert all(sink.texts == ["a", "b"] for sink in sinks)
