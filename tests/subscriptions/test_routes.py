"""Routes: which servers hold connections of a user. A check of an idle user does not renew them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.users.callers import Caller, CallerRole
from server.services import Services, open_services
from server.settings import Settings
from store.base.ids import UserId
from store.redis.cache import Call
from subscriptions.realtime import hub, server_silence
from subscriptions.realtime.mailboxes import Mailbox, MailboxEvent, QueueBudget
from subscriptions.realtime.server_silence import SILENCE_SECONDS, ServerSilence
from tests.mailboxes import next_item
from tests.waiting import TIMEOUT_SECONDS

_names = itertools.count()
_WRITER = UserId("writer")


@pytest.fixture(scope="module")
async def services(module_settings: Settings) -> AsyncIterator[Services]:
    async with open_services(module_settings) as opened:
        await opened.sign_in(Caller(_WRITER, CallerRole.USER, 2e9))
        yield opened


@pytest.fixture
async def user(services: Services) -> UserId:
    name = UserId(f"routed{next(_names)}")
    await services.sign_in(Caller(name, CallerRole.USER, 2e9))
    return name


async def _write(services: Services, user: UserId) -> None:
    await send_message(services.app, _WRITER, NewMessage(user, None, "hello"))
    while services.app.bus.pending_sends:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def _routes(services: Services, user: UserId) -> dict[str, int]:
    """Return the servers and times of a user's routes, which the copy has too."""
    store = services.app.store
    key = store.keys.of_user(user, "routes")
    rows = await store.cache.one(Call("ZRANGE", (key,), (0, -1, "WITHSCORES")))
    routes = {rows[i].decode(): int(rows[i + 1]) for i in range(0, len(rows), 2)}
    copy = await store.cache.one(Call("HGET", store.keys.user(user), ("servers",)))
    words = (copy or b"").decode().split()
    assert dict(zip(words[1::2], map(int, words[::2]), strict=True)) == routes
    return routes


async def _is_heard(mailbox: Mailbox) -> bool:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        return isinstance(await next_item(mailbox), MailboxEvent)


async def test_a_check_of_an_idle_user_changes_nothing_in_redis(services: Services, user: UserId) -> None:
    mailbox = await services.app.hub.attach(user, QueueBudget())
    before = await _routes(services, user)
    trips = services.app.store.cache.trips
    await services.app.hub.check_feeds()
    assert services.app.store.cache.trips - trips == 1
    assert await _routes(services, user) == before
    services.app.hub.detach(mailbox)


async def test_a_route_is_stored_again_when_half_of_its_time_has_passed(
    services: Services, user: UserId, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox = await services.app.hub.attach(user, QueueBudget())
    (until,) = (await _routes(services, user)).values()
    monkeypatch.setattr(hub, "ROUTE_MS", 3 * hub.ROUTE_MS)
    await services.app.hub.check_feeds()
    (renewed,) = (await _routes(services, user)).values()
    assert renewed > until + hub.ROUTE_MS // 2
    services.app.hub.detach(mailbox)


@pytest.mark.parametrize("lost", ["routes", "copy"])
async def test_a_lost_route_of_a_live_server_is_stored_again(services: Services, user: UserId, lost: str) -> None:
    mailbox = await services.app.hub.attach(user, QueueBudget())
    store = services.app.store
    if lost == "routes":
        await store.cache.one(Call("DEL", (store.keys.of_user(user, "routes"),)))
    else:
        await store.cache.one(Call("HSET", store.keys.user(user), ("servers", "")))
    await services.app.hub.check_feeds()
    assert list(await _routes(services, user)) == [services.app.hub.server]
    await _write(services, user)
    assert await _is_heard(mailbox)
    services.app.hub.detach(mailbox)


async def test_a_state_whose_lock_holder_died_is_found_by_the_check(services: Services, user: UserId) -> None:
    mailbox = await services.app.hub.attach(user, QueueBudget())
    store = services.app.store
    await store.cache.one(Call("HSET", store.keys.user(user), ("held", "dead:1")))
    await services.app.hub.check_feeds()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert not isinstance(await next_item(mailbox), MailboxEvent)
    services.app.hub.detach(mailbox)


async def test_the_route_of_a_user_who_left_ends_after_the_next_frame(services: Services, user: UserId) -> None:
    services.app.hub.detach(await services.app.hub.attach(user, QueueBudget()))
    await services.app.hub.check_feeds()
    assert await _routes(services, user)
    await _write(services, user)
    await services.app.hub.check_feeds()
    assert not await _routes(services, user)


async def test_a_user_who_returns_while_the_route_is_removed_keeps_it(
    services: Services, user: UserId, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = services.app.hub
    own.detach(await own.attach(user, QueueBudget()))
    await _write(services, user)
    sessions, may_detach = services.app.store.sessions, asyncio.Event()
    detach = sessions.detach

    async def slow_detach(*args: object) -> None:
        await may_detach.wait()
        await detach(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(sessions, "detach", slow_detach)
    check = asyncio.create_task(own.check_feeds())
    while user not in own._owners_losing_routes:  # noqa: ASYNC110
        await asyncio.sleep(0)
    attaching = asyncio.create_task(own.attach(user, QueueBudget()))
    await asyncio.sleep(0.01)
    may_detach.set()
    await check
    mailbox = await attaching
    assert list(await _routes(services, user)) == [own.server]
    await _write(services, user)
    assert await _is_heard(mailbox)
    own.detach(mailbox)


async def test_routes_to_a_server_that_ended_are_removed_when_it_was_silent_long_enough(
    services: Services, user: UserId, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = services.app.store
    mailbox = await services.app.hub.attach(user, QueueBudget())
    await store.sessions.attach(user, "ended", store.clock.now_ms() + hub.ROUTE_MS)
    await _write(services, user)
    assert set(await _routes(services, user)) == {"ended", services.app.hub.server}
    monkeypatch.setattr(server_silence, "SILENCE_SECONDS", 0.0)
    await _write(services, user)
    assert list(await _routes(services, user)) == [services.app.hub.server]
    assert await _is_heard(mailbox)
    services.app.hub.detach(mailbox)


def test_a_server_counts_as_ended_after_a_minute_without_a_receiver() -> None:
    silence = ServerSilence()
    assert not silence.has_ended("a", 0, 100.0)
    assert not silence.has_ended("a", 0, 100.0 + SILENCE_SECONDS - 1)
    assert not silence.has_ended("b", 0, 100.0 + SILENCE_SECONDS)
    assert silence.has_ended("a", 0, 100.0 + SILENCE_SECONDS)
    assert not silence.has_ended("a", 1, 200.0)
    assert not silence.has_ended("a", 0, 300.0)
