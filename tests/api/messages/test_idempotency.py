"""The same key with the same input answers the first message, and with any other input a conflict."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import UserId
from store.messages.message import ReservedMessage
from store.sessions.apply_results import NOT_CACHED
from subscriptions.delivery.in_flight_messages import Sent
from tests.api.client import Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.clock import ManualClock

CONFLICT = Refusal("IDEMPOTENCY_CONFLICT", "idempotencyKey")


async def test_a_repeated_request_answers_the_first_message_and_stores_nothing(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    first = await api.send(alice, bob, "once", idempotencyKey="k")
    await api.send(bob, alice, "in between")
    await api.wait_until_idle()
    listeners = [await api.listen(user) for user in (alice, bob)]
    stored = await api.stored_documents()
    for _ in range(3):
        again = await api.send(alice, bob, "once", idempotencyKey="k")
        assert again["replayed"] is True
        assert again["message"] == first["message"]
        assert again["session"] == await api.session(alice, private_id(alice, bob))
    assert await api.stored_documents() == stored
    for listener in listeners:
        await listener.expect_no_event(0.03)
    assert (await api.send(alice, bob, "next"))["message"]["seq"] == 3


async def test_replaying_does_not_read_what_came_after_the_message(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "once", idempotencyKey="k")
    await api.send(bob, alice, "unread")
    again = await api.send(alice, bob, "once", idempotencyKey="k")
    assert again["session"]["unreadCount"] == await api.total_unread(alice) == 1


async def test_an_input_spelt_otherwise_that_means_the_same_is_the_same(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    first = await api.send(alice, bob, "x", idempotencyKey="k")
    for spelling in (
        {"contentType": "TEXT", "mentions": [], "mentionAll": False, "replyToId": None},
        {"contentType": None, "mentions": None, "mentionAll": None},
    ):
        for to in (bob, private_id(alice, bob)):
            again = await api.send(alice, to, "x", idempotencyKey="k", **spelling)
            assert (again["message"]["id"], again["replayed"]) == (first["message"]["id"], True)
    group = await api.create_group(alice, bob, carol)
    first = await api.send(alice, group, "x", idempotencyKey="m", mentions=[bob, carol])
    again = await api.send(alice, group, "x", idempotencyKey="m", mentions=[carol, bob, carol])
    assert (again["message"]["id"], again["replayed"]) == (first["message"]["id"], True)


@pytest.mark.parametrize(
    "other", ["content", "destination", "type", "mentions", "everybody", "reply", "kind of destination"]
)
async def test_any_other_input_is_a_conflict(api: Api, other: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    elsewhere = await api.create_group(alice, bob, carol)
    earlier = (await api.send(bob, group))["message"]["id"]
    await api.send(alice, group, "x", idempotencyKey="k")
    to, changes = group, dict[str, Any]()
    match other:
        case "content":
            changes = {"content": "x "}
        case "destination":
            to = elsewhere
        case "kind of destination":
            to = bob
        case "type":
            changes = {"contentType": "BOT_COMMAND"}
        case "mentions":
            changes = {"mentions": [bob]}
        case "everybody":
            changes = {"mentionAll": True}
        case "reply":
            changes = {"replyToId": earlier}
    stored = await api.stored_documents()
    assert await api.expect_send_refusal(alice, to, **({"content": "x", "idempotencyKey": "k"} | changes)) == CONFLICT
    assert await api.stored_documents() == stored
    assert (await api.send(alice, group, "x", idempotencyKey="k"))["replayed"] is True
    assert (await api.send(alice, group, "next"))["message"]["seq"] == 3


async def test_twins_give_one_message(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = await gather_all(*(api.send(alice, bob, "twin", idempotencyKey="k") for _ in range(10)))
    assert len({payload["message"]["id"] for payload in sent}) == 1
    assert sorted(payload["replayed"] for payload in sent) == [False] + [True] * 9
    assert len(await api.history(bob, private_id(alice, bob))) == 1
    assert await api.total_unread(bob) == 1


async def test_twins_through_two_processes_give_one_message(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = await gather_all(*(process.send(alice, bob, "twin", idempotencyKey="k") for process in (api, other_api) * 4))
    assert len({payload["message"]["id"] for payload in sent}) == 1
    assert [payload["replayed"] for payload in sent].count(False) == 1
    assert len(await other_api.history(bob, private_id(alice, bob))) == 1


async def test_a_first_request_that_wakes_up_after_its_twin_took_over_takes_no_second_place(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolvers.messages.idempotency._UNRESERVED_PATIENCE_SECONDS", 0.0)
    alice, bob = await api.create_users("alice", "bob")
    outbox = api.services.app.store.outbox
    reserve, asleep, wake = outbox.reserve, asyncio.Event(), asyncio.Event()

    async def sleepy(*args: Any, **how: Any) -> Any:
        asleep.set()
        await wake.wait()
        return await reserve(*args, **how)

    monkeypatch.setattr(outbox, "reserve", sleepy)
    first = asyncio.create_task(api.send(alice, bob, "twin", idempotencyKey="k"))
    await asleep.wait()
    second = await other_api.send(alice, bob, "twin", idempotencyKey="k")
    wake.set()
    assert (await first)["message"] == second["message"]
    assert await api.total_unread(bob) == 1
    after = await api.send(alice, bob, "next")
    assert after["message"]["seq"] == 2
    assert await api.total_unread(bob) == 2


async def test_unequal_twins_give_one_message_and_conflicts(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    outcomes = await gather_all(
        *(api.run(alice, SEND_ID, input={"toUserId": bob, "content": f"{i}", "idempotencyKey": "k"}) for i in range(6))
    )
    refused = [outcome for outcome in outcomes if "errors" in outcome]
    assert [outcome["errors"][0]["extensions"]["code"] for outcome in refused] == ["IDEMPOTENCY_CONFLICT"] * 5
    assert len(await api.history(bob, private_id(alice, bob))) == 1


SEND_ID = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }"


async def test_the_same_key_of_somebody_else_is_another_key(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    first = await api.send(alice, carol, "x", idempotencyKey="k")
    second = await api.send(bob, carol, "x", idempotencyKey="k")
    back = await api.send(carol, alice, "something else", idempotencyKey="k")
    assert len({payload["message"]["id"] for payload in (first, second, back)}) == 3
    assert not any(payload["replayed"] for payload in (first, second, back))


@pytest.mark.parametrize("key", ["x", "k" * 128, "ключ \n\t{u:bob}:*", "🔑" * 128, " ", "0", "\x00", "a" * 127 + "é"])
async def test_keys_may_hold_anything(api: Api, key: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    first = await api.send(alice, bob, idempotencyKey=key)
    assert first["message"]["idempotencyKey"] == key
    other = await api.send(alice, bob, idempotencyKey=key + "'" if len(key) < 128 else key[1:])
    assert other["replayed"] is False
    again = await api.send(alice, bob, idempotencyKey=key)
    assert (again["replayed"], again["message"]) == (True, first["message"])


@pytest.mark.parametrize("fault", ["content", "recipient", "outsider", "mention", "everybody", "reply"])
async def test_a_key_whose_first_request_was_refused_is_free(api: Api, fault: str) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    foreign = await api.create_group(alice, carol, dave)
    faults: dict[str, Json] = {
        "content": {"content": " "},
        "recipient": {"to": "nobody-at-all"},
        "outsider": {"to": foreign},
        "mention": {"mentions": [dave]},
        "everybody": {"mentionAll": True},
        "reply": {"replyToId": "m_1"},
    }
    wrong = {"to": group, "content": "wrong", "idempotencyKey": "k"} | faults[fault]
    await api.expect_send_refusal(bob, **wrong)
    right = await api.send(bob, group, "right", idempotencyKey="k")
    assert right["replayed"] is False
    assert (await api.send(bob, group, "right", idempotencyKey="k"))["message"] == right["message"]


async def test_twins_that_are_refused_are_refused_at_once_and_leave_the_key_free(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    began = time.monotonic()
    refusals = await gather_all(
        *(api.expect_send_refusal(bob, group, "wrong", mentions=[dave], idempotencyKey="k") for _ in range(3))
    )
    assert refusals == [Refusal("INVALID_INPUT", "mentions")] * 3
    assert time.monotonic() - began < 2
    assert (await api.send(bob, group, "right", idempotencyKey="k"))["replayed"] is False


async def test_redis_keeps_a_key_for_a_day(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "once", idempotencyKey="k")
    await api.wait_until_idle()
    (hours,) = await api.remaining_hours(api.services.app.store.keys.claim(UserId(alice), "k"))
    assert 23 < hours <= 24


# --- after Redis lost everything


@pytest.fixture
def place() -> str:
    """Databases that never lost anything before."""
    return secrets.token_hex(4)


async def test_a_lost_redis_is_noticed_once(open_api: OpenApi, deployments: Deployments, place: str) -> None:
    async with open_api(place) as api:
        await api.services.housekeeper.close()
        deployment = api.services.app.store.deployment
        before = deployment.redis_epoch
        deployments.flush_redis(place)
        await deployment.check_redis()
        noticed = deployment.redis_epoch
        assert noticed != before
        await deployment.check_redis()
        assert deployment.redis_epoch == noticed


@pytest.mark.parametrize(
    "then", ["nothing", "it is noticed", "somebody reads", "another process is the first to notice", "a process starts"]
)
async def test_replaying_works_when_redis_has_lost_the_key(
    open_api: OpenApi, deployments: Deployments, place: str, then: str
) -> None:
    async with AsyncExitStack() as stack:
        api, other = [await stack.enter_async_context(open_api(place)) for _ in range(2)]
        for process in (api, other):
            await process.services.housekeeper.close()
        alice, bob = await api.create_users("alice", "bob")
        first = await api.send(alice, bob, "once", idempotencyKey="k")
        await api.send(alice, bob, "once too", idempotencyKey="m")
        await api.wait_until_idle()
        deployments.flush_redis(place)
        match then:
            case "it is noticed":
                await api.services.app.store.deployment.check_redis()
            case "somebody reads":
                await api.sessions(bob)
            case "another process is the first to notice":
                await other.send(bob, alice, "notices the loss")
            case "a process starts":
                api = await stack.enter_async_context(open_api(place))
        again = await api.send(alice, bob, "once", idempotencyKey="k")
        assert (again["replayed"], again["message"]) == (True, first["message"])
        assert await api.expect_send_refusal(alice, bob, "other", idempotencyKey="m") == CONFLICT
        contents = [message["content"] for message in await api.history(bob, private_id(alice, bob))]
        assert [content for content in contents if content != "notices the loss"] == ["once", "once too"]


@pytest.mark.parametrize(("hours", "remembered"), [(23, True), (25, False)])
async def test_after_a_loss_keys_are_remembered_for_a_day(
    open_api: OpenApi, deployments: Deployments, place: str, hours: float, remembered: bool
) -> None:
    clock = ManualClock()
    async with open_api(place, clock) as api:
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob, "once", idempotencyKey="k")
        await api.wait_until_idle()
        await api.advance_days(clock, hours / 24)
        deployments.flush_redis(place)
        again = await api.send(alice, bob, "once", idempotencyKey="k")
        assert again["replayed"] is remembered


async def test_a_message_whose_session_is_not_to_be_seen_yet_is_asked_for_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    first = await api.send(alice, bob, "once", idempotencyKey="k")
    before = await api.stored_documents()
    app = api.services.app

    async def store_alone(reserved: ReservedMessage, *, recovered: bool) -> Sent:
        return Sent(reserved.message, NOT_CACHED)

    with monkeypatch.context() as lost:
        # As after a server died between storing the first message of two people and showing it, and Redis went as it was to be shown.
        find_many = app.store.sessions.find_many
        lost.setattr(app.store.sessions, "find_many", lambda user, _names: find_many(user, []))
        lost.setattr(app.delivery, "send", store_alone)
        refused = await api.expect_send_refusal(alice, bob, "once", idempotencyKey="k")
    assert (refused.code, refused.retryable) == ("UNAVAILABLE", True)
    assert await api.stored_documents() == before
    assert (await api.send(alice, bob, "once", idempotencyKey="k"))["message"]["id"] == first["message"]["id"]


async def test_a_key_whose_first_retry_after_a_loss_did_not_learn_what_it_stands_for_stands_for_that_still(
    open_api: OpenApi, deployments: Deployments, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolvers.messages.idempotency._UNRESERVED_PATIENCE_SECONDS", 0.0)
    async with open_api(place) as api:
        await api.services.housekeeper.close()
        alice, bob = await api.create_users("alice", "bob")
        first = await api.send(alice, bob, "once", idempotencyKey="k")
        await api.wait_until_idle()
        deployments.flush_redis(place)

        async def fail(*_: object) -> None:
            raise Unreachable("MongoDB does not answer")

        with monkeypatch.context() as patch:
            patch.setattr(api.services.app.store.messages, "find_by_key", fail)
            assert (await api.expect_send_refusal(alice, bob, "once", idempotencyKey="k")).code == "UNAVAILABLE"
        again = await api.send(alice, bob, "once", idempotencyKey="k")
        assert (again["replayed"], again["message"]["id"]) == (True, first["message"]["id"])
        assert len(await api.history(bob, private_id(alice, bob))) == 1
