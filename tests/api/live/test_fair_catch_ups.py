"""Catch-ups of a user with very many subscriptions: few parts are held at once, and others catch up without delay."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import orjson
import pytest

from resolvers.base.catch_ups import MAX_PARTS_PER_USER, MAX_READS_PER_USER
from resolvers.live import session_sync
from resolvers.sessions.session_lists import changed_since
from store.base.errors import Unreachable
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest, Json, RequestRefused
from tests.api.client import Api, make_caller, wait_until

SESSIONS = """subscription { syncSession(since: "unusable") { hasMore reset sessions { id } } }"""
MESSAGES = """subscription ($since: Cursor!) { messageEvents(since: $since) { __typename
    ... on MessageCreated { message { content } } ... on CaughtUp { reset cursor } } }"""

_PART = 2
_MANY = MAX_PARTS_PER_USER + 4


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_sync, "LARGEST_PAGE", _PART)


class SlowDevice:
    """A subscription whose events are taken one by one."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @classmethod
    async def open(cls, api: Api, user: str, query: str, **variables: Any) -> SlowDevice:
        caller, request = make_caller(user), GraphQLRequest(query, variables)
        engine = api.services.engine
        prepared = await engine.prepare(request, caller)
        stream = await engine.subscribe(prepared, request, ConnectionContext(caller, "test"))
        device = cls(stream)
        device.ask()
        return device

    def ask(self) -> Json | None:
        """Take an event. The first call begins to read."""
        response = self._stream.take()
        if response is None:
            return None
        (value,) = orjson.loads(response)["data"].values()
        assert isinstance(value, dict)
        return value

    async def next(self) -> Json:
        found: list[Json] = []

        async def has_event() -> bool:
            event = self.ask()
            found.extend([event] if event is not None else [])
            return bool(found)

        await wait_until(has_event)
        return found[0]

    def close(self) -> None:
        self._stream.close()


async def create_user_with_sessions(api: Api, name: str, count: int) -> str:
    user, *peers = await api.create_users(name, *(f"peer{number}" for number in range(count)))
    for peer in peers:
        await api.send(peer, user)
    return user


async def expect_nothing_left(api: Api) -> None:
    catch_ups: Any = api.services.app.catch_ups

    async def is_empty() -> bool:
        return not (catch_ups.held or catch_ups.waiting or catch_ups._reads.running or catch_ups._reads.waiting)

    await wait_until(is_empty)


async def test_devices_that_do_not_read_hold_few_parts_and_delay_only_their_user(api: Api) -> None:
    catch_ups = api.services.app.catch_ups
    flood = await create_user_with_sessions(api, "flood", 3)
    other = await create_user_with_sessions(api, "other", 3)
    devices = [await SlowDevice.open(api, flood, SESSIONS) for _ in range(_MANY)]

    async def holds(held: int, waiting: int) -> bool:
        return (catch_ups.held, catch_ups.waiting) == (held, waiting)

    await wait_until(partial(holds, MAX_PARTS_PER_USER, _MANY - MAX_PARTS_PER_USER))
    bystander = await api.subscribe(other, SESSIONS)
    parts = await bystander.take(2)
    assert [(part["hasMore"], part["reset"], len(part["sessions"])) for part in parts] == [
        (True, True, _PART), (False, True, 1),
    ]  # fmt: skip
    # A device that goes away makes room for one that waits, which may be any of the others.
    devices.pop(0).close()
    await wait_until(partial(holds, MAX_PARTS_PER_USER, _MANY - MAX_PARTS_PER_USER - 1))
    devices.pop().close()
    await wait_until(partial(holds, MAX_PARTS_PER_USER, _MANY - MAX_PARTS_PER_USER - 2))
    # Devices that read get all of it.
    sizes: list[list[int]] = [[] for _ in devices]
    while any(sum(found) < 3 for found in sizes):
        for device, found in zip(devices, sizes, strict=True):
            event = device.ask()
            found.extend([len(event["sessions"])] if event is not None else [])
        await api.services.app.store.mongo.ping()
    assert sizes == [[_PART, 1]] * len(devices)
    for device in devices:
        assert device.ask() is None
        device.close()
    await expect_nothing_left(api)


async def test_a_part_of_missed_messages_is_held_until_its_last_event_was_taken(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    live = await api.subscribe(alice, MESSAGES.replace("Cursor!", "Cursor"), since=None)
    cursor = (await live.next())["cursor"]
    for number in range(3):
        await api.send(bob, alice, str(number))
        # The server has the event, so it is a missed one for later subscriptions.
        await live.next()
    device = await SlowDevice.open(api, alice, MESSAGES, since=cursor)
    for number in range(3):
        assert (await device.next())["message"]["content"] == str(number)
        assert api.services.app.catch_ups.held == 1
    assert (await device.next())["reset"] is False
    assert device.ask() is None
    await expect_nothing_left(api)
    device.close()


async def test_asking_for_events_during_a_read_does_not_release_its_part(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    catch_ups, gate = api.services.app.catch_ups, asyncio.Event()
    alice = await create_user_with_sessions(api, "alice", 1)
    started, read = asyncio.Event(), catch_ups.read

    async def read_slowly(*arguments: Any) -> Any:
        started.set()
        await gate.wait()
        return await read(*arguments)

    monkeypatch.setattr(catch_ups, "read", read_slowly)
    device = await SlowDevice.open(api, alice, SESSIONS)
    await started.wait()
    assert device.ask() is None
    assert catch_ups.held == 1
    gate.set()
    assert (await device.next())["hasMore"] is False
    device.close()
    await expect_nothing_left(api)


async def test_more_catch_ups_of_a_user_are_refused_without_a_subscription(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = api.services.app
    monkeypatch.setattr(app.catch_ups, "_max_per_user", 3)
    flood = await create_user_with_sessions(api, "flood", 3)
    other = await create_user_with_sessions(api, "other", 1)
    devices = [await SlowDevice.open(api, flood, SESSIONS) for _ in range(3)]

    async def all_are_held() -> bool:
        return app.catch_ups.held == 3

    await wait_until(all_are_held)
    mailboxes, refused = app.hub.mailboxes, app.catch_ups.refused
    for query, variables in ((SESSIONS, {}), (MESSAGES, {"since": "unusable"})):
        with pytest.raises(RequestRefused) as refusal:
            await SlowDevice.open(api, flood, query, **variables)
        extensions = refusal.value.errors[0]["extensions"]
        assert (extensions["code"], extensions["retryAfterMs"]) == ("RATE_LIMITED", 1_000)
    assert (app.hub.mailboxes, app.catch_ups.refused) == (mailboxes, refused + 2)
    # Live events without missed ones, and other users, are not affected.
    (await SlowDevice.open(api, flood, MESSAGES.replace("Cursor!", "Cursor"), since=None)).close()
    (await SlowDevice.open(api, other, SESSIONS)).close()
    devices.pop().close()
    devices.append(await SlowDevice.open(api, flood, SESSIONS))
    for device in devices:
        device.close()
    await expect_nothing_left(api)


async def test_catch_ups_that_wait_for_a_database_do_not_hold_its_connections(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    catch_ups: Any = api.services.app.catch_ups
    flood = await create_user_with_sessions(api, "flood", 1)
    running: list[int] = []
    is_away = True

    async def read(*arguments: Any, **options: Any) -> Any:
        running.append(catch_ups._reads.running)
        if is_away:
            raise Unreachable("away")
        return await changed_since(*arguments, **options)

    monkeypatch.setattr(session_sync, "changed_since", read)
    devices = [await SlowDevice.open(api, flood, SESSIONS) for _ in range(MAX_READS_PER_USER + 2)]

    async def each_has_failed() -> bool:
        return len(running) >= len(devices)

    await wait_until(each_has_failed)
    assert max(running) <= MAX_READS_PER_USER and not catch_ups._reads.running
    is_away = False
    for device in devices:
        assert (await device.next())["hasMore"] is False
        device.close()
    await expect_nothing_left(api)
