"""Idempotency keys: the same input returns the first message, a different input is a conflict."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import UserId
from store.messages.message import ReservedMessage
from store.sessions.apply_results import NOT_CACHED
from subscriptions.delivery.in_flight_messages import Sent
from tests.api.client import TIMEOUT_SECONDS, Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.paused_step import PausedStep
from tests.clock import ManualClock

CONFLICT = Refusal("IDEMPOTENCY_CONFLICT", "idempotencyKey")


async def test_a_repeated_request_returns_the_first_message(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    first = await api.send(alice, bob, "once", idempotencyKey="k")
    await api.send(bob, alice, "in between")
    await api.wait_until_idle()
    listeners = [await api.listen(user) for user in (alice, bob)]
    stored = await api.stored_hashes()
    for _ in range(3):
        repeated = await api.send(alice, bob, "once", idempotencyKey="k")
        assert repeated["replayed"] is True
        assert repeated["message"] == first["message"]
        assert repeated["session"] == await api.session(alice, private_id(alice, bob))
    assert await api.stored_hashes() == stored
    for listener in listeners:
        await listener.expect_no_event(0.03)
    assert (await api.send(alice, bob, "next"))["message"]["seq"] == 3


async def test_replaying_does_not_read_later_messages(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "once", idempotencyKey="k")
    await api.send(bob, alice, "unread")
    repeated = await api.send(alice, bob, "once", idempotencyKey="k")
    assert repeated["session"]["unreadCount"] == await api.total_unread(alice) == 1


async def test_equivalent_inputs_are_the_same_input(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    first = await api.send(alice, bob, "x", idempotencyKey="k")
    for spelling in (
        {"contentType": "TEXT", "mentions": [], "mentionAll": False, "replyToId": None},
        {"contentType": None, "mentions": None, "mentionAll": None},
    ):
        for to in (bob, private_id(alice, bob)):
            repeated = await api.send(alice, to, "x", idempotencyKey="k", **spelling)
            assert (repeated["message"]["id"], repeated["replayed"]) == (first["message"]["id"], True)
    group = await api.create_group(alice, bob, carol)
    first = await api.send(alice, group, "x", idempotencyKey="m", mentions=[bob, carol])
    repeated = await api.send(alice, group, "x", idempotencyKey="m", mentions=[carol, bob, carol])
    assert (repeated["message"]["id"], repeated["replayed"]) == (first["message"]["id"], True)


@pytest.mark.parametrize(
    "difference", ["content", "destination", "type", "mentions", "mention all", "reply", "kind of destination"]
)
async def test_a_different_input_is_a_conflict(api: Api, difference: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    other_group = await api.create_group(alice, bob, carol)
    earlier_message = (await api.send(bob, group))["message"]["id"]
    await api.send(alice, group, "x", idempotencyKey="k")
    to, changes = group, dict[str, Any]()
    match difference:
        case "content":
            changes = {"content": "x "}
        case "destination":
            to = other_group
        case "kind of destination":
            to = bob
        case "type":
            changes = {"contentType": "BOT_COMMAND"}
        case "mentions":
            changes = {"mentions": [bob]}
        case "mention all":
            changes = {"mentionAll": True}
        case "reply":
            changes = {"replyToId": earlier_message}
    stored = await api.stored_hashes()
    assert await api.expect_send_refusal(alice, to, **({"content": "x", "idempotencyKey": "k"} | changes)) == CONFLICT
    assert await api.stored_hashes() == stored
    assert (await api.send(alice, group, "x", idempotencyKey="k"))["replayed"] is True
    assert (await api.send(alice, group, "next"))["message"]["seq"] == 3


async def test_concurrent_equal_requests_give_one_message(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    payloads = await gather_all(*(api.send(alice, bob, "same", idempotencyKey="k") for _ in range(10)))
    assert len({payload["message"]["id"] for payload in payloads}) == 1
    assert sorted(payload["replayed"] for payload in payloads) == [False] + [True] * 9
    assert len(await api.history(bob, private_id(alice, bob))) == 1
    assert await api.total_unread(bob) == 1


async def test_concurrent_equal_requests_at_two_processes_give_one_message(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    payloads = await gather_all(
        *(process.send(alice, bob, "same", idempotencyKey="k") for process in (api, other_api) * 4)
    )
    assert len({payload["message"]["id"] for payload in payloads}) == 1
    assert [payload["replayed"] for payload in payloads].count(False) == 1
    assert len(await other_api.history(bob, private_id(alice, bob))) == 1


async def test_a_delayed_first_request_takes_no_second_place(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolvers.messages.idempotency._MAX_UNRESERVED_WAIT_SECONDS", 0.0)
    alice, bob = await api.create_users("alice", "bob")
    paused = PausedStep(api.services.app.store.outbox, "reserve", monkeypatch, once=True)
    first = asyncio.create_task(api.send(alice, bob, "same", idempotencyKey="k"))
    await paused.reached.wait()
    second = await other_api.send(alice, bob, "same", idempotencyKey="k")
    paused.resume.set()
    assert (await first)["message"] == second["message"]
    assert await api.total_unread(bob) == 1
    after = await api.send(alice, bob, "next")
    assert after["message"]["seq"] == 2
    assert await api.total_unread(bob) == 2


async def test_concurrent_different_requests_give_one_message_and_conflicts(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    outcomes = await gather_all(
        *(api.run(alice, SEND_ID, input={"toUserId": bob, "content": f"{i}", "idempotencyKey": "k"}) for i in range(6))
    )
    refused = [outcome for outcome in outcomes if "errors" in outcome]
    assert [outcome["errors"][0]["extensions"]["code"] for outcome in refused] == ["IDEMPOTENCY_CONFLICT"] * 5
    assert len(await api.history(bob, private_id(alice, bob))) == 1


SEND_ID = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }"


async def test_keys_of_different_users_are_independent(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    first = await api.send(alice, carol, "x", idempotencyKey="k")
    second = await api.send(bob, carol, "x", idempotencyKey="k")
    answer = await api.send(carol, alice, "something else", idempotencyKey="k")
    assert len({payload["message"]["id"] for payload in (first, second, answer)}) == 3
    assert not any(payload["replayed"] for payload in (first, second, answer))


@pytest.mark.parametrize("key", ["x", "k" * 128, "ключ \n\t{u:bob}:*", "🔑" * 128, " ", "0", "\x00", "a" * 127 + "é"])
async def test_keys_may_hold_any_characters(api: Api, key: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    first = await api.send(alice, bob, idempotencyKey=key)
    assert first["message"]["idempotencyKey"] == key
    other_key = await api.send(alice, bob, idempotencyKey=key + "'" if len(key) < 128 else key[1:])
    assert other_key["replayed"] is False
    repeated = await api.send(alice, bob, idempotencyKey=key)
    assert (repeated["replayed"], repeated["message"]) == (True, first["message"])


@pytest.mark.parametrize("fault", ["content", "recipient", "outsider", "mention", "everybody", "reply"])
async def test_a_refused_request_leaves_its_key_free(api: Api, fault: str) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    foreign_group = await api.create_group(alice, carol, dave)
    faults: dict[str, Json] = {
        "content": {"content": " "},
        "recipient": {"to": "nobody-at-all"},
        "outsider": {"to": foreign_group},
        "mention": {"mentions": [dave]},
        "everybody": {"mentionAll": True},
        "reply": {"replyToId": "m_1"},
    }
    invalid_input = {"to": group, "content": "wrong", "idempotencyKey": "k"} | faults[fault]
    await api.expect_send_refusal(bob, **invalid_input)
    valid = await api.send(bob, group, "right", idempotencyKey="k")
    assert valid["replayed"] is False
    assert (await api.send(bob, group, "right", idempotencyKey="k"))["message"] == valid["message"]


async def test_concurrent_refused_requests_do_not_wait_for_each_other(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    # With these limits, a request that waited for another one would wait for an hour.
    monkeypatch.setattr("resolvers.messages.idempotency._MAX_UNRESERVED_WAIT_SECONDS", 3600)
    monkeypatch.setattr("resolvers.messages.idempotency._MAX_WAIT_SECONDS", 3600)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        refusals = await gather_all(
            *(api.expect_send_refusal(bob, group, "wrong", mentions=[dave], idempotencyKey="k") for _ in range(3))
        )
    assert refusals == [Refusal("INVALID_INPUT", "mentions")] * 3
    assert (await api.send(bob, group, "right", idempotencyKey="k"))["replayed"] is False


async def test_redis_keeps_a_key_for_a_day(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "once", idempotencyKey="k")
    await api.wait_until_idle()
    (hours,) = await api.remaining_hours(api.services.app.store.keys.claim(UserId(alice), "k"))
    assert 23 < hours <= 24


@pytest.fixture
def deployment() -> str:
    """A deployment that never lost its Redis before."""
    return secrets.token_hex(4)


async def test_a_loss_of_redis_is_noticed_once(open_api: OpenApi, deployments: Deployments, deployment: str) -> None:
    async with open_api(deployment) as api:
        await api.services.housekeeper.close()
        state = api.services.app.store.deployment
        before = state.redis_epoch
        deployments.flush_redis(deployment)
        await state.check_redis()
        epoch = state.redis_epoch
        assert epoch != before
        await state.check_redis()
        assert state.redis_epoch == epoch


@pytest.mark.parametrize(
    "event", ["nothing", "the loss is noticed", "a user reads", "another process notices first", "a process starts"]
)
async def test_replaying_works_after_redis_lost_the_key(
    open_api: OpenApi, deployments: Deployments, deployment: str, event: str
) -> None:
    async with AsyncExitStack() as stack:
        api, other_api = [await stack.enter_async_context(open_api(deployment)) for _ in range(2)]
        for process in (api, other_api):
            await process.services.housekeeper.close()
        alice, bob = await api.create_users("alice", "bob")
        first = await api.send(alice, bob, "once", idempotencyKey="k")
        await api.send(alice, bob, "once too", idempotencyKey="m")
        await api.wait_until_idle()
        deployments.flush_redis(deployment)
        match event:
            case "the loss is noticed":
                await api.services.app.store.deployment.check_redis()
            case "a user reads":
                await api.sessions(bob)
            case "another process notices first":
                await other_api.send(bob, alice, "notices the loss")
            case "a process starts":
                api = await stack.enter_async_context(open_api(deployment))
        repeated = await api.send(alice, bob, "once", idempotencyKey="k")
        assert (repeated["replayed"], repeated["message"]) == (True, first["message"])
        assert await api.expect_send_refusal(alice, bob, "other", idempotencyKey="m") == CONFLICT
        contents = [message["content"] for message in await api.history(bob, private_id(alice, bob))]
        assert [content for content in contents if content != "notices the loss"] == ["once", "once too"]


@pytest.mark.parametrize(("hours", "remembered"), [(23, True), (25, False)])
async def test_after_a_loss_keys_are_found_for_a_day(
    open_api: OpenApi, deployments: Deployments, deployment: str, hours: float, remembered: bool
) -> None:
    clock = ManualClock()
    async with open_api(deployment, clock) as api:
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob, "once", idempotencyKey="k")
        await api.wait_until_idle()
        await api.advance_days(clock, hours / 24)
        deployments.flush_redis(deployment)
        repeated = await api.send(alice, bob, "once", idempotencyKey="k")
        assert repeated["replayed"] is remembered


async def test_a_replay_without_a_session_is_a_retryable_error(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    first = await api.send(alice, bob, "once", idempotencyKey="k")
    before = await api.stored_hashes()
    app = api.services.app

    async def store_only(reserved: ReservedMessage, *, recovered: bool) -> Sent:
        return Sent(reserved.message, NOT_CACHED)

    with monkeypatch.context() as patch:
        # A server stored the first message of two users and died before fan-out; then Redis was lost.
        find_many = app.store.sessions.find_many
        find_each = app.store.sessions.find_each
        patch.setattr(app.store.sessions, "find_many", lambda user, _names: find_many(user, []))
        patch.setattr(app.store.sessions, "find_each", lambda user, _names: find_each(user, []))
        patch.setattr(app.delivery, "send", store_only)
        refused = await api.expect_send_refusal(alice, bob, "once", idempotencyKey="k")
    assert (refused.code, refused.retryable) == ("UNAVAILABLE", True)
    assert await api.stored_hashes() == before
    assert (await api.send(alice, bob, "once", idempotencyKey="k"))["message"]["id"] == first["message"]["id"]


async def test_a_failed_replay_after_a_loss_leaves_the_key_to_its_message(
    open_api: OpenApi, deployments: Deployments, deployment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolvers.messages.idempotency._MAX_UNRESERVED_WAIT_SECONDS", 0.0)
    async with open_api(deployment) as api:
        await api.services.housekeeper.close()
        alice, bob = await api.create_users("alice", "bob")
        first = await api.send(alice, bob, "once", idempotencyKey="k")
        await api.wait_until_idle()
        deployments.flush_redis(deployment)

        async def fail(*_: object) -> None:
            raise Unreachable("MongoDB does not answer")

        with monkeypatch.context() as patch:
            patch.setattr(api.services.app.store.messages, "find_by_key", fail)
            assert (await api.expect_send_refusal(alice, bob, "once", idempotencyKey="k")).code == "UNAVAILABLE"
        repeated = await api.send(alice, bob, "once", idempotencyKey="k")
        assert (repeated["replayed"], repeated["message"]["id"]) == (True, first["message"]["id"])
        assert len(await api.history(bob, private_id(alice, bob))) == 1
