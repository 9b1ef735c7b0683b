"""Typing in channels between servers: few frames, and no hint is lost for long when an owner ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from store.base.ids import ConversationId, MessageId, UserId
from store.base.snowflakes import first_id_at
from store.messages.message import Message, MessageKind
from subscriptions.realtime.events.base import EphemeralEvent
from subscriptions.realtime.events.shared import ChannelMessage, MessageChange
from subscriptions.realtime.events.typing import TypingStarted, TypingStopped
from subscriptions.realtime.ring import server_ring
from subscriptions.realtime.ring.server_ring import ServerRing
from subscriptions.realtime.server_calls import ServerCalls
from subscriptions.realtime.shared import typing_relay
from subscriptions.realtime.shared.typing_relay import MOST_STARTED, TypingRelay
from tests.clock import ManualClock

CHANNEL = ConversationId("c_7.1")


class FakeBus:
    """One server's connection to the network."""

    def __init__(self, server: str, network: Network) -> None:
        self.server = server
        self.handlers: dict[str, Callable[[Any], None]] = {}
        self.calls = ServerCalls(server, network.publish)
        self._network = network

    def on_frame(self, kind: str, handle: Callable[[Any], None]) -> None:
        self.handlers[kind] = handle

    def send_frames(self, kind: str, bodies: Mapping[str, Any]) -> None:
        for server, body in bodies.items():
            self._network.frames[kind] += 1
            if server not in self._network.ended:
                asyncio.get_running_loop().call_soon(self._network.buses[server].handlers[kind], body)


class Network:
    """Servers that all look at the channel."""

    def __init__(self, *servers: str) -> None:
        self.frames: Counter[str] = Counter()
        self.ended: set[str] = set()
        self.hung: set[str] = set()
        self.clock = ManualClock()
        self.shown: dict[str, list[EphemeralEvent]] = {server: [] for server in servers}
        self.buses = {server: FakeBus(server, self) for server in servers}
        self.relays: dict[str, TypingRelay] = {}
        for server, bus in self.buses.items():
            ring = ServerRing(server, bus.calls)
            ring.update(servers)
            show = self.shown[server].append
            self.relays[server] = TypingRelay(bus, ring, self.clock, show)  # type: ignore[arg-type]

    async def publish(self, server: str, frame: dict[str, Any]) -> int:
        self.frames["question" if "question" in frame["call"] else "answer"] += 1
        if server in self.ended:
            return 0
        if server not in self.hung:
            asyncio.get_running_loop().call_soon(self.buses[server].calls.receive, frame["call"])
        return 1

    @property
    def owner(self) -> str:
        return next(iter(self.relays.values())).ring.owner_of(CHANNEL)

    @property
    def others(self) -> list[str]:
        return [server for server in self.relays if server != self.owner]

    def start(self, server: str, user: str) -> None:
        self.relays[server].send(TypingStarted(CHANNEL, UserId(user), self.clock.ms), list(self.relays))

    def stop(self, server: str, user: str) -> None:
        self.relays[server].send(TypingStopped(CHANNEL, UserId(user), self.clock.ms), list(self.relays))

    async def wait_for(self, servers: Iterable[str], count: int) -> None:
        """Wait until servers have shown a number of events, and no more of them come."""
        await self.wait_until_quiet(servers, count)
        assert {server: len(self.shown[server]) for server in servers} == dict.fromkeys(servers, count)

    async def wait_until_quiet(self, servers: Iterable[str], least: int) -> None:
        """Wait until servers have shown a number of events at least, and no more of them come."""
        async with asyncio.timeout(20):
            while any(len(self.shown[server]) < least for server in servers) or self._is_busy():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def _is_busy(self) -> bool:
        return any(relay._waiting or relay._gathered for name, relay in self.relays.items() if name not in self.ended)

    async def close(self) -> None:
        for server, relay in self.relays.items():
            await relay.close()
            await self.buses[server].calls.close()


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing_relay, "SECONDS_BETWEEN", 0.2)
    monkeypatch.setattr(typing_relay, "SECONDS_BETWEEN_QUESTIONS", 0.02)


async def test_many_users_who_type_at_once_cost_few_frames() -> None:
    network = Network("one", "two", "three", "four")
    users = [f"user{number}" for number in range(40)]
    for number, user in enumerate(users):
        network.start(list(network.relays)[number % 4], user)
    await network.wait_until_quiet(network.relays, 1 + MOST_STARTED)
    for shown in network.shown.values():
        assert shown == network.shown["one"]
        assert len({event.user for event in shown}) == len(shown)
    # The first signal is sent at once, the others together. Without an owner it would be 40 frames to 3 servers.
    assert network.frames["channel_typing"] <= 4 * 3
    assert network.frames["question"] == network.frames["answer"] <= 2 * 3
    await network.close()


async def test_nothing_is_kept_of_a_channel_that_is_quiet_again() -> None:
    network = Network("one", "two")
    network.start("one", "ann")
    await network.wait_for(network.relays, 1)
    for relay in network.relays.values():
        assert not relay._gathered and not relay._timers and not relay._waiting and not relay._tasks
    network.stop("two", "ann")
    await network.wait_for(network.relays, 2)
    assert [type(event) for event in network.shown["one"]] == [TypingStarted, TypingStopped]
    await network.close()


@pytest.mark.parametrize("state", ["ended", "hung"])
async def test_the_next_owner_announces_what_an_owner_did_not_answer(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_ring, "ANSWER_SECONDS", 0.5)
    network = Network("one", "two", "three")
    lost, (here, there) = network.owner, network.others
    getattr(network, state).add(lost)
    network.start(here, "ann")
    network.start(there, "ben")
    network.start(here, "cem")
    await network.wait_for((here, there), 3)
    questions = network.frames["question"]
    network.start(here, "dora")
    await network.wait_for((here, there), 4)
    # The owner is not asked again for a while.
    assert network.relays[here].ring.owner_of(CHANNEL) != lost
    assert network.frames["question"] <= questions + 1
    await network.close()


async def test_servers_that_disagree_about_the_owner_lose_and_repeat_nothing() -> None:
    network = Network("one", "two", "three")
    for server in network.relays:
        network.relays[server].ring.update([])
    for server in network.relays:
        for number in range(5):
            network.start(server, f"{server} {number}")
    await network.wait_for(network.relays, 15)
    for shown in network.shown.values():
        assert len({event.user for event in shown}) == 15
    await network.close()


async def test_viewers_get_a_handful_of_announcements_a_second_and_the_ends_of_those() -> None:
    network = Network("one", "two")
    users = [f"user{number}" for number in range(100)]
    for user in users:
        network.start(network.owner, user)
    await network.wait_for(network.relays, 1 + MOST_STARTED)
    shown = [event.user for event in network.shown["two"]]
    assert shown == users[: 1 + MOST_STARTED]
    for user in users[::-1]:
        network.stop(network.owner, user)
    await network.wait_for(network.relays, 2 * len(shown))
    for events in network.shown.values():
        assert {event.user for event in events if isinstance(event, TypingStopped)} == set(shown)
    await network.close()


async def test_the_end_of_each_announcement_that_was_seen_is_announced() -> None:
    network = Network("one", "two")
    users = ["ann", "ben", "cem", "dora"]
    for user in users:
        network.start(network.owner, user)
    await network.wait_for(network.relays, 4)
    network.stop(network.owner, "nobody saw this one")
    for user in users:
        network.stop(network.owner, user)
    await network.wait_for(network.relays, 8)
    assert [event.user for event in network.shown["two"][4:]] == users
    await network.close()


async def test_only_the_newest_signal_of_a_user_is_announced() -> None:
    network = Network("one", "two")
    network.start("one", "ann")
    await network.wait_for(network.relays, 1)
    network.start("one", "ben")
    network.start("one", "cem")
    network.stop("one", "cem")
    network.stop("one", "ann")
    await network.wait_for(network.relays, 3)
    # The end of what was not announced is not announced either.
    assert [(type(event), event.user) for event in network.shown["two"]] == [
        (TypingStarted, "ann"),
        (TypingStarted, "ben"),
        (TypingStopped, "ann"),
    ]
    await network.close()


async def test_typing_that_began_before_a_message_is_not_shown_after_it() -> None:
    network = Network("one", "two")
    network.start("one", "ann")
    network.start("one", "ben")
    sent_at = MessageId(first_id_at(network.clock.ms + 1))
    sent = Message(sent_at, CHANNEL, UserId("ben"), MessageKind.TEXT, "hi", 1, 1)
    for relay in network.relays.values():
        relay.note_message(ChannelMessage(sent, MessageChange.CREATED))
    await network.wait_for(network.relays, 1)
    network.clock.ms += 5
    network.start("one", "ben")
    await network.wait_for(network.relays, 2)
    assert [event.user for event in network.shown["two"]] == ["ann", "ben"]
    await network.close()
