"""Subscriptions whose events cannot be rendered: the error for their subscribers; others are not affected."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

import resolvers.live.patient_reads
import resolvers.live.session_sync
from schema.base.loaders import Loaders
from schema.execution import engine as engine_module
from schema.execution.event_rendering import ResponseStream
from store.base.errors import Unreachable
from subscriptions.transport.engine import (
    ConnectionContext,
    EventStream,
    GraphQLRequest,
    RequestRefused,
)
from tests.api.client import (
    LIVE_MESSAGES,
    LIVE_SESSIONS,
    TIMEOUT_SECONDS,
    Api,
    Refusal,
    make_caller,
    parse_refusal,
    wait_until,
)
from tests.api.stream_responses import iterate_responses

_names = itertools.count()


def unique_subscription() -> str:
    """Return a subscription to messages whose rendering needs a read, with a selection that no other test uses."""
    return (
        f"subscription {{ messageEvents {{ ... on MessageCreated {{ own{next(_names)}: cursor "
        f"message {{ content sender {{ displayName }} }} }} }} }}"
    )


async def start_subscription(api: Api, user: str, query: str, **variables: Any) -> EventStream:
    request = GraphQLRequest(query, variables or None)
    engine = api.services.engine
    context = ConnectionContext(make_caller(user), "test")
    return await engine.subscribe(await engine.prepare(request, context.caller), request, context)


async def expect_stream_refusal(stream: EventStream) -> Refusal:
    with pytest.raises(RequestRefused) as caught:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            async for _ in iterate_responses(stream):
                pass
    (error,) = caught.value.errors
    return parse_refusal(error)


async def fail(*_: Any, **__: Any) -> Any:
    raise Unreachable("not there")


@pytest.mark.parametrize("query", [LIVE_MESSAGES, LIVE_SESSIONS], ids=["messages", "sessions"])
async def test_a_failed_replay_ends_with_a_retryable_error(
    api: Api, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    first = await (await api.subscribe(alice, query)).next()
    await api.stop_subscriptions()
    monkeypatch.setattr(resolvers.live.patient_reads, "_MAX_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(api.services.app.replayer, "since", fail)
    monkeypatch.setattr(resolvers.live.session_sync, "changed_since", fail)
    stream = await start_subscription(api, alice, query, since=first["cursor"])
    assert await expect_stream_refusal(stream) == Refusal("UNAVAILABLE", retryable=True)
    assert not api.services.app.hub.has_mailbox(make_caller(alice).user_id)


async def test_an_event_that_failed_for_some_is_rendered_again_for_later_readers(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    query = unique_subscription()
    early, late = [await start_subscription(api, bob, query) for _ in range(2)]
    assert late.take() is not None
    monkeypatch.setattr(engine_module, "_EVENT_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(engine_module, "_EVENT_RETRY_PAUSE_SECONDS", 0.0)
    load = Loaders._load_users

    async def fail_for_events(loaders: Loaders, users: Any) -> Any:
        return await (fail() if loaders._viewer.is_shared else load(loaders, users))

    with monkeypatch.context() as patch:
        patch.setattr(Loaders, "user", lambda loaders, user: loaders.users.load(user))
        patch.setattr(Loaders, "_load_users", fail_for_events)
        await api.send(alice, bob)
        assert await expect_stream_refusal(early) == Refusal("UNAVAILABLE", retryable=True)
    events = iterate_responses(late)
    assert b"displayName" in await anext(events)
    await events.aclose()


async def test_an_event_with_an_internal_error_ends_all_its_subscriptions(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    streams = [await start_subscription(api, user, unique_subscription()) for user in (alice, bob)]
    monkeypatch.setattr("schema.events.messages.message_from", lambda message: 1 / 0)
    await api.send(alice, bob)
    assert [await expect_stream_refusal(stream) for stream in streams] == [Refusal("INTERNAL")] * 2


async def test_a_failing_subscriber_does_not_affect_others(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    query = unique_subscription()
    broken = [await start_subscription(api, user, query) for user in (alice, bob, carol)]
    listeners = [await api.listen(user) for user in (alice, bob, carol)]
    healthy = await api.subscribe(carol, query)
    await healthy.next()

    def fail() -> None:
        raise ZeroDivisionError

    for stream in broken:
        stream.on_ready(fail)
        stream.take()
    await api.send(alice, group)
    await api.send(alice, group)
    for listener in listeners:
        while (await listener.next()).get("message", {}).get("seq") != 2:
            pass
    for _ in range(2):
        assert (await healthy.next())["message"]
    for stream in broken:
        stream.close()


async def test_taking_an_event_while_it_is_rendered_changes_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    monkeypatch.setattr(Loaders, "user", lambda loaders, user: loaders.users.load(user))
    subscription = await start_subscription(api, bob, unique_subscription())
    assert isinstance(subscription, ResponseStream)
    events = iterate_responses(subscription)
    await anext(events)
    rendered = ResponseStream.on_rendered
    taken: list[bytes | None] = []

    def take_too_early(response: ResponseStream, *outcome: Any) -> None:
        taken.append(response.take())
        rendered(response, *outcome)

    monkeypatch.setattr(ResponseStream, "on_rendered", take_too_early)
    await api.send(alice, bob, "one")
    await api.send(alice, bob, "two")
    async with asyncio.timeout(TIMEOUT_SECONDS):
        received = [await anext(events) for _ in range(2)]
    assert b'"one"' in received[0] and b'"two"' in received[1]
    assert set(taken) == {None}
    await events.aclose()


async def test_no_feed_remains_when_all_subscriptions_have_ended(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    streams = [
        await start_subscription(api, user, query) for user in (alice, bob) for query in (LIVE_MESSAGES, LIVE_SESSIONS)
    ]
    for stream in streams:
        stream.take()
    await api.send(alice, bob)
    for stream in streams:
        stream.close()
    await api.stop_subscriptions()

    async def has_no_feeds() -> bool:
        return not api.services.app.hub._feeds

    await wait_until(has_no_feeds)
