"""The external hook judges messages and edits everywhere, and a hook that fails delays nobody for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from resolvers.content_rules import content_hook
from resolvers.content_rules.circuit_breaker import (
    FAILURES,
    LONGEST_PAUSE_SECONDS,
    SHORTEST_PAUSE_SECONDS,
    CircuitBreaker,
)
from resolvers.content_rules.content_hook import ContentHook
from resolvers.users.callers import CallerRole
from store.mongo.collections import REPORTS
from tests.api.client import EDIT, SEND, Api, Refusal, gather_all, make_caller, message_input
from tests.api.conftest import OpenApi
from tests.api.content_rules.calls import REJECTED, create_space, rule
from tests.api.content_rules.hook_server import SECRET, by_text, says, settings_for
from tests.api.requests.test_budgets import Meter
from tests.webhooks.endpoint import Endpoint, Reply, answer, hang, open_endpoint, reset
from tests.webhooks.incoming.hooks import Hooks, refusal_of

UNAVAILABLE = Refusal("UNAVAILABLE", retryable=True)
SHORT_SECONDS = 0.05


@pytest.fixture(scope="module")
async def endpoint() -> AsyncIterator[Endpoint]:
    async with open_endpoint(by_text) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
async def hooked_process(open_api: OpenApi, endpoint: Endpoint) -> AsyncIterator[Api]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content_hook, "ANSWER_SECONDS", 20.0)
        async with open_api("hooked", **settings_for(endpoint)) as api:
            yield api


@pytest.fixture
async def hooked(hooked_process: Api, endpoint: Endpoint) -> AsyncIterator[Api]:
    """A server that asks the hook, and waits for it as long as the machine needs."""
    endpoint.decide = by_text
    endpoint.received.clear()
    hook_of(hooked_process).breaker.note_success()
    yield hooked_process
    await hooked_process.wait_until_idle()
    await hooked_process.stop_subscriptions()


def hook_of(api: Api) -> ContentHook:
    hook = api.services.app.content_hook
    assert hook is not None
    return hook


def fail_closed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = hook_of(api)
    options = type(hook.options)(hook.options.url, hook.options.secret, False, hook.options.reporter)
    monkeypatch.setattr(hook, "options", options)


async def reports(api: Api) -> list[tuple[str, str, str | None, str]]:
    rows = await api.services.app.store.mongo.find(REPORTS, {}, sort=(("o", 1),))
    return [(row["u"], row["s"], row.get("x"), row["w"]) for row in rows]


async def test_the_hook_judges_all_conversations_and_its_calls_are_signed(hooked: Api, endpoint: Endpoint) -> None:
    space = await create_space(hooked)
    group = await hooked.create_group(space.alice, space.bob, space.carol)
    parent = (await hooked.send(space.bob, space.general, "fine"))["message"]
    in_group = (await hooked.send(space.bob, group, "fine"))["message"]
    await hooked.send(space.bob, space.carol, "fine")
    endpoint.received.clear()
    before = await hooked.stored_documents()
    places = (space.general, parent["id"], group, in_group["id"], space.carol)
    for to in places:
        assert await hooked.expect_send_refusal(space.bob, to, "BLOCK this") == REJECTED
    assert await hooked.stored_documents() == before
    kinds = ["CHANNEL", "THREAD", "GROUP", "THREAD", "PRIVATE"]
    for request, kind in zip(endpoint.received, kinds, strict=True):
        body = request.verify(SECRET)
        assert request.event_id == body["data"]["messageId"] and body["type"] == "CONTENT_CHECK"
        shown = {name: body["data"][name] for name in ("conversationType", "senderId", "content", "isEdit")}
        assert shown == {
            "conversationType": kind,
            "senderId": space.bob,
            "content": "BLOCK this",
            "isEdit": False,
        }
        in_workspace = body["data"]["conversationId"].find(space.general) >= 0
        assert body["data"]["workspaceId"] == (space.id if in_workspace else None)


async def test_edits_webhooks_and_bots_are_judged_and_system_messages_are_not(hooked: Api, endpoint: Endpoint) -> None:
    space = await create_space(hooked)
    sent = (await hooked.send(space.bob, space.general, "fine"))["message"]["id"]
    assert await hooked.expect_refusal(space.bob, EDIT, id=sent, content="BLOCK it") == REJECTED
    assert endpoint.received[-1].data["isEdit"] is True
    await hooked.edit(space.bob, sent, "better")
    hooks = Hooks(hooked)
    hook = await hooks.create(space.alice, space.general)
    assert refusal_of(await hooks.send(hook, "BLOCK it")) == (400, "REJECTED", "content")
    assert endpoint.received[-1].data["isFromWebhook"] is True
    refused = await hooked.expect_send_refusal(space.bob, space.general, "BLOCK it", contentType="BOT_COMMAND")
    assert refused == REJECTED
    count = len(endpoint.received)
    service = make_caller("service", CallerRole.SERVICE)
    await hooked.data(service, SEND, input=message_input(space.general, "BLOCK it", contentType="SYSTEM"))
    assert len(endpoint.received) == count
    assert await space.texts() == ["better"]


async def test_a_refused_key_can_be_used_again_and_a_replay_is_not_judged(hooked: Api, endpoint: Endpoint) -> None:
    alice, bob = await hooked.create_users("alice", "bob")
    assert await hooked.expect_send_refusal(alice, bob, "BLOCK", idempotencyKey="k") == REJECTED
    await hooked.send(alice, bob, "fine", idempotencyKey="k")
    count = len(endpoint.received)
    endpoint.decide = lambda _: says("BLOCK")
    assert (await hooked.send(alice, bob, "fine", idempotencyKey="k"))["replayed"]
    assert len(endpoint.received) == count


async def test_flagged_messages_are_reported_to_the_workspace_or_the_deployment(hooked: Api) -> None:
    space = await create_space(hooked)
    group = await hooked.create_group(space.alice, space.bob, space.carol)
    before = len(await reports(hooked))
    sent = (await hooked.send(space.bob, space.general, "FLAG 1"))["message"]["id"]
    await hooked.send(space.bob, group, "FLAG 2")
    await hooked.send(space.bob, space.carol, "FLAG 3")
    await hooked.edit(space.bob, sent, "FLAG 4")
    in_group = (await hooked.send(space.bob, group, "fine"))["message"]["id"]
    await hooked.edit(space.bob, in_group, "FLAG 5")
    assert (await reports(hooked))[before:] == [
        (space.alice, space.bob, "FLAG 1", space.id),
        ("content-hook", space.bob, "FLAG 2", "-"),
        ("content-hook", space.bob, "FLAG 3", "-"),
        (space.alice, space.bob, "FLAG 4", space.id),
        ("content-hook", space.bob, "FLAG 5", "-"),
    ]


async def test_content_rules_are_judged_too(hooked: Api) -> None:
    space = await create_space(hooked)
    (stored,) = await space.set(rule("FLAG", words=["spam"]))
    await hooked.send(space.bob, space.general, "FLAG spam")
    assert [report.note for report in await space.reports()] == [f"flagged by the content rule {stored['id']}"]
    await space.set(rule())
    assert await hooked.expect_send_refusal(space.bob, space.general, "FLAG spam") == REJECTED


WRONG: list[Reply] = [
    answer(200, b"yes"),
    answer(200, b"[]"),
    says("allow"),
    says(None),
    answer(200),
    answer(204),
    answer(302, location="http://127.0.0.1/"),
    answer(500, b'{"action": "ALLOW"}'),
    answer(200, b" " * 40_000 + b'{"action": "ALLOW"}'),
    b"nonsense\r\n\r\n",
    reset,
]


@pytest.mark.parametrize("reply", WRONG)
async def test_a_hook_that_answers_wrongly_fails_open_or_closed(
    hooked: Api, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, reply: Reply
) -> None:
    alice, bob = await hooked.create_users("alice", "bob")
    endpoint.decide = lambda _: reply
    failed = hook_of(hooked).outcomes["failed"]
    sent = (await hooked.send(alice, bob, "BLOCK"))["message"]["id"]
    assert hook_of(hooked).outcomes["failed"] == failed + 1
    fail_closed(hooked, monkeypatch)
    before = await hooked.stored_documents()
    assert await hooked.expect_send_refusal(alice, bob, "x", idempotencyKey="k") == UNAVAILABLE
    assert await hooked.expect_refusal(alice, EDIT, id=sent, content="x") == UNAVAILABLE
    assert await hooked.stored_documents() == before
    # Nothing was stored, so the key is free at once.
    endpoint.decide = by_text
    assert not (await hooked.send(alice, bob, "another", idempotencyKey="k"))["replayed"]


async def test_a_slow_hook_does_not_delay_other_users_or_hold_the_conversation(hooked: Api, endpoint: Endpoint) -> None:
    space = await create_space(hooked)
    waiting = asyncio.Event()

    def decide(request: Any) -> Reply:
        if request.data["content"] == "slow":
            waiting.set()
            return hang
        return by_text(request)

    endpoint.decide = decide
    slow = asyncio.create_task(hooked.send(space.bob, space.general, "slow"))
    await waiting.wait()
    await hooked.send(space.carol, space.general, "first")
    # The hook does not answer it, so it is sent when the time is over.
    assert not slow.done()
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    assert await space.texts() == ["first"]


async def test_a_dead_hook_is_not_asked_for_each_message(
    hooked: Api, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await hooked.create_users("alice", "bob")
    hook, now = hook_of(hooked), [0.0]
    monkeypatch.setattr(hook, "breaker", CircuitBreaker(lambda: now[0]))
    monkeypatch.setattr(hook, "_seconds", SHORT_SECONDS)
    endpoint.decide = lambda _: hang
    for _ in range(20):
        await hooked.send(alice, bob, "x")
    # On a busy machine, the short time may be over before the hook receives the request.
    asked = len(endpoint.received)
    assert 1 <= asked <= FAILURES and hook.breaker.is_open
    fail_closed(hooked, monkeypatch)
    assert await hooked.expect_send_refusal(alice, bob, "x") == UNAVAILABLE
    assert len(endpoint.received) == asked
    # After the pause, one message asks. The hook answers again, so all do.
    monkeypatch.setattr(hook, "_seconds", 20.0)
    endpoint.decide = by_text
    now[0] = LONGEST_PAUSE_SECONDS
    await hooked.send(alice, bob, "x")
    assert not hook.breaker.is_open
    await gather_all(*(hooked.send(alice, bob, "x") for _ in range(10)))
    assert len(endpoint.received) == asked + 11


async def test_a_hook_without_a_listener_fails(open_api: OpenApi, endpoint: Endpoint) -> None:
    settings = settings_for(endpoint, content_hook_url="http://127.0.0.1:9/", content_hook_fails_open=False)
    async with open_api("hooked", **settings) as api:
        alice, bob = await api.create_users("alice", "bob")
        assert await api.expect_send_refusal(alice, bob) == UNAVAILABLE


async def test_the_hook_costs_no_round_trip_to_a_database(hooked: Api) -> None:
    space = await create_space(hooked)
    meter = Meter(hooked)
    await meter.expect("sendMessage, hook", lambda: meter.send(space.bob, space.general), 1, 2)


async def test_connections_to_the_hook_are_kept(hooked: Api, endpoint: Endpoint) -> None:
    alice, bob = await hooked.create_users("alice", "bob")
    await hooked.send(alice, bob, "fine")
    before = endpoint.connections
    for _ in range(5):
        await hooked.send(alice, bob, "fine")
    assert endpoint.connections == before


def test_pauses_of_the_breaker_grow_and_one_caller_asks_after_each() -> None:
    now = [0.0]
    breaker = CircuitBreaker(lambda: now[0])
    for _ in range(FAILURES - 1):
        assert breaker.should_ask() and not breaker.note_failure()
    breaker.note_success()
    for _ in range(FAILURES):
        assert breaker.should_ask()
        breaker.note_failure()
    pauses = []
    for _ in range(8):
        start = now[0]
        while not breaker.should_ask():
            now[0] += 0.5
        assert not breaker.should_ask()
        pauses.append(now[0] - start)
        breaker.note_failure()
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    now[0] += 30.0
    assert breaker.should_ask()
    breaker.note_success()
    assert breaker.should_ask() and breaker.should_ask()


def test_calls_that_fail_together_open_the_breaker_once_and_its_pause_stays_short() -> None:
    """A hundred messages wait for the hook when it stops answering."""
    now = [0.0]
    breaker = CircuitBreaker(lambda: now[0])
    assert all(breaker.should_ask() for _ in range(100))
    assert sum(breaker.note_failure() for _ in range(100)) == 1
    assert not breaker.should_ask()
    now[0] += SHORTEST_PAUSE_SECONDS
    assert breaker.should_ask() and not breaker.should_ask()
    # The caller is gone: another one asks after the pause.
    now[0] += SHORTEST_PAUSE_SECONDS
    assert breaker.should_ask()
    breaker.note_failure()
    now[0] += 2 * SHORTEST_PAUSE_SECONDS
    assert breaker.should_ask()
