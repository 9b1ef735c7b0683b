"""Subscriptions whose events can't be told: what each subscriber is told instead, and that it is nobody else's trouble."""

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
    iterate_responses,
)
from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, Api, Refusal, make_caller, parse_refusal, wait_until

_names = itertools.count()


def sender() -> str:
    """Message events with what takes a read to show, and a selection that no other test has."""
    return f"subscription {{ messageEvents {{ ... on MessageCreated {{ own{next(_names)}: cursor message {{ sender {{ displayName }} }} }} }} }}"


async def started(api: Api, user: str, query: str, **variables: Any) -> EventStream:
    request = GraphQLRequest(query, variables or None)
    engine = api.services.engine
    return await engine.subscribe(engine.prepare(request), request, ConnectionContext(make_caller(user), "test"))


async def refusal(stream: EventStream) -> Refusal:
    with pytest.raises(RequestRefused) as refused:
        async with asyncio.timeout(3):
            async for _ in iterate_responses(stream):
                pass
    (error,) = refused.value.errors
    return parse_refusal(error)


async def gone(*_: Any, **__: Any) -> Any:
    raise Unreachable("not there")


@pytest.mark.parametrize("query", [LIVE_MESSAGES, LIVE_SESSIONS], ids=["messages", "sessions"])
async def test_who_can_t_be_told_what_they_missed_is_asked_to_try_again(
    api: Api, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    first = await (await api.subscribe(alice, query)).next()
    await api.stop_subscriptions()
    monkeypatch.setattr(resolvers.live.patient_reads, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(api.services.app.replayer, "since", gone)
    monkeypatch.setattr(resolvers.live.session_sync, "changed_since", gone)
    stream = await started(api, alice, query, since=first["cursor"])
    assert await refusal(stream) == Refusal("UNAVAILABLE", retryable=True)
    assert not api.services.app.hub.has_mailbox(make_caller(alice).user_id)


async def test_an_event_that_could_not_be_told_to_some_is_told_to_who_comes_to_it_later(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    query = sender()
    prompt, late = [await started(api, bob, query) for _ in range(2)]
    late.take()
    monkeypatch.setattr(engine_module, "_EVENT_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(engine_module, "_EVENT_RETRY_PAUSE_SECONDS", 0.0)
    load = Loaders._load_users

    async def gone_for_events(loaders: Loaders, users: Any) -> Any:
        return await (gone() if loaders._viewer.is_shared else load(loaders, users))

    with monkeypatch.context() as away:
        away.setattr(Loaders, "user", lambda loaders, user: loaders.users.load(user))
        away.setattr(Loaders, "_load_users", gone_for_events)
        await api.send(alice, bob)
        assert await refusal(prompt) == Refusal("UNAVAILABLE", retryable=True)
    told = iterate_responses(late)
    assert b"displayName" in await anext(told) + await anext(told)
    await told.aclose()


async def test_an_event_that_is_not_understood_ends_subscriptions_and_leaves_none_waiting(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    streams = [await started(api, user, sender()) for user in (alice, bob)]
    monkeypatch.setattr("schema.events.messages.message_from", lambda message: 1 / 0)
    await api.send(alice, bob)
    assert [await refusal(stream) for stream in streams] == [Refusal("INTERNAL")] * 2


async def test_one_subscriber_s_fault_is_nobody_else_s(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    query = sender()
    broken = [await started(api, user, query) for user in (alice, bob, carol)]
    listeners = [await api.listen(user) for user in (alice, bob, carol)]
    shown = await api.subscribe(carol, query)
    await shown.next()

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
        assert (await shown.next())["message"]
    for stream in broken:
        stream.close()


async def test_being_asked_once_too_often_for_an_event_that_is_being_rendered_changes_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    query = LIVE_MESSAGES
    hasty = await started(api, bob, query)
    assert isinstance(hasty, ResponseStream)
    told = iterate_responses(hasty)
    await anext(told)
    rendered = ResponseStream.on_rendered
    taken: list[bytes | None] = []

    def asked_before(waiting: ResponseStream, *outcome: Any) -> None:
        taken.append(waiting.take())
        rendered(waiting, *outcome)

    monkeypatch.setattr(ResponseStream, "on_rendered", asked_before)
    await api.send(alice, bob, "one")
    await api.send(alice, bob, "two")
    async with asyncio.timeout(3):
        seen = [await anext(told) for _ in range(2)]
    assert b'"one"' in seen[0] and b'"two"' in seen[1]
    assert set(taken) == {None}
    await told.aclose()


async def test_nobody_is_heard_any_more_when_all_who_listened_have_gone(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    streams = [await started(api, user, query) for user in (alice, bob) for query in (LIVE_MESSAGES, LIVE_SESSIONS)]
    for stream in streams:
        stream.take()
    await api.send(alice, bob)
    for stream in streams:
        stream.close()
    await api.stop_subscriptions()

    async def nobody() -> bool:
        return not api.services.app.hub._feeds

    await wait_until(nobody, within=1)
