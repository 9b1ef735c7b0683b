"""Watchers on several servers end with the stored presence, however frames are lost, delayed and repeated."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from server.services import open_services
from server.settings import Settings
from store.base.errors import Unreachable
from store.base.ids import UserId
from store.presence.presence_record import DeviceType, PresenceSetting
from store.presence.shown_presence import ShownPresence, shown_presence
from tests.clock import ManualClock
from tests.store.presence.stores import evict
from tests.subscriptions.test_presence_hub import Screen, Server
from tests.waiting import wait_for

USERS = [UserId(name) for name in ("ann", "ben", "eve")]
STEPS = 60
Devices = dict[tuple[str, UserId, str], dict[str, Any]]


class BadBus:
    """Frames of presence to one server: some come late or twice, and all are lost while it is interrupted."""

    def __init__(self, server: Server, choice: random.Random) -> None:
        self._bus = server.app.bus
        self._receive = self._bus._handlers["presence"]
        self._publish = self._bus.publish_frames
        self._random = choice
        self.is_interrupted = False
        self._bus._handlers["presence"] = self._take
        self._bus.publish_frames = self._send  # type: ignore[method-assign]

    def restore(self) -> None:
        self.is_interrupted = False
        self._bus._handlers["presence"] = self._receive
        self._bus.publish_frames = self._publish  # type: ignore[method-assign]

    def _take(self, body: Any) -> None:
        if self.is_interrupted:
            return
        for _ in range(self._random.choice([1, 1, 2])):
            asyncio.get_running_loop().call_later(self._random.choice([0.0, 0.0, 0.02, 0.05]), self._receive, body)

    async def _send(self, kind: str, bodies: Mapping[str, Any]) -> None:
        if kind == "presence" and self._random.random() < 0.1:
            raise Unreachable("test")
        await self._publish(kind, bodies)


async def _truth(server: Server, user: UserId) -> ShownPresence:
    record = (await server.app.store.presence.read([user]))[user]
    return shown_presence(record, server.app.live_servers.find_end, server.clock.ms).shown


async def _check(servers: list[Server], screens: list[Screen], seen: Any) -> None:
    """Wait until all servers, and all that their subscriptions got, are what the records say."""

    async def is_right() -> bool:
        for user in USERS:
            truths = [await _truth(server, user) for server in servers]
            if len(set(truths)) != 1:
                return False
            for server, screen in zip(servers, screens, strict=True):
                watched = server.hub.users.find(user)
                if watched is None or watched.record is None:
                    return False
                if (await server.hub.read([user]))[user] != truths[0]:
                    return False
                last = seen(screen, user)
                if (last.status, last.is_mobile) != (truths[0].status, truths[0].is_mobile):
                    return False
        return True

    try:
        async with asyncio.timeout(30):
            while not await is_right():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    except TimeoutError:
        wrong = []
        for server, screen in zip(servers, screens, strict=True):
            for user in USERS:
                truth, shown = await _truth(server, user), (await server.hub.read([user]))[user]
                if shown != truth or seen(screen, user).status is not truth.status:
                    wrong.append((server.name, truth, shown, seen(screen, user)))
        raise AssertionError(wrong) from None


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_all_servers_end_with_the_stored_presence(
    settings: Settings, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.presence.presence_publisher._RETRY_SECONDS", 0.05)
    monkeypatch.setattr("subscriptions.presence.watch_reader._RETRY_SECONDS", 0.05)
    choice, clock, devices = random.Random(seed), ManualClock(), Devices()
    async with AsyncExitStack() as stack:
        servers = [Server(await stack.enter_async_context(open_services(settings, clock)), clock) for _ in range(3)]
        for server in servers:
            server.hub.publisher.seconds_between = 0.01
            server.hub.users.event_seconds = 0.02
            server.hub.unwatch_seconds = 0.03
        buses = [BadBus(server, choice) for server in servers]
        screens = [Screen(server.hub) for server in servers]
        first: dict[tuple[int, UserId], ShownPresence] = {}

        def seen(screen: Screen, user: UserId) -> ShownPresence:
            states = [state.shown for state in screen.states if state.shown.user == user]
            return states[-1] if states else first[id(screen), user]

        async def look(place: int) -> None:
            screens[place].watch.close()
            screens[place] = Screen(servers[place].hub)
            states = await screens[place].watch.add(USERS)
            first.update({(id(screens[place]), user): state.shown for user, state in states.items()})

        async def report() -> None:
            for server in servers:
                await server.app.live_servers.report()

        await report()
        for place in range(3):
            await look(place)
        for _ in range(STEPS):
            place, user = choice.randrange(3), choice.choice(USERS)
            server, name = servers[place], choice.choice(["phone", "laptop"])
            key = server.name, user, name
            clock.ms += 1
            match choice.choice(["put", "put", "put", "end", "end", "set", "time", "look", "cut", "evict", "quiet"]):
                case "put":
                    idle = choice.choice([None, clock.ms])
                    kind = DeviceType.MOBILE if name == "phone" else DeviceType.WEB
                    devices[key] = {"type": kind, "since_ms": clock.ms, "idle_since_ms": idle}
                    await server.put(user, device=name, **devices[key])
                case "end" if key in devices and "gone_at_ms" not in devices[key]:
                    devices[key]["gone_at_ms"] = clock.ms
                    await server.put(user, device=name, **devices[key])
                case "set":
                    until = choice.choice([None, clock.ms + 20_000])
                    value = choice.choice(list(PresenceSetting))
                    server.hub.publish([await server.app.store.presence.set_presence(user, value, until)])
                case "time":
                    clock.ms += choice.choice([1_000, 7_500, 14_999])
                    await report()
                    for each in servers:
                        each.hub.users.derive_soon()
                case "look":
                    await look(place)
                case "cut":
                    buses[place].is_interrupted = not buses[place].is_interrupted
                    if not buses[place].is_interrupted:
                        server.hub.resync()
                case "evict":
                    await evict(server.app.store, user, *choice.choice([(), ("pwatch",), ("presence",)]))
                    for (owner, of, device), state in devices.items():
                        if of == user and "gone_at_ms" not in state:
                            one = next(each for each in servers if each.name == owner)
                            await one.put(user, device=device, **state)
                case _:
                    for each, bus in zip(servers, buses, strict=True):
                        if bus.is_interrupted:
                            bus.is_interrupted = False
                            each.hub.resync()
                    await _check(servers, screens, seen)
        for each, bus in zip(servers, buses, strict=True):
            bus.restore()
            each.hub.resync()
        await _check(servers, screens, seen)
        await wait_for(lambda: all(each.hub.users._task is None for each in servers))
