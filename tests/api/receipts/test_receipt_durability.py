"""Receipts are as durable as their cause: sending a message, which reads, and acknowledgements without an answer."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import ConversationId, MessageId, UserId
from store.messages.message import Message, MessageKind, ReservedMessage
from store.receipts.receipt_marks import ReceiptKind
from subscriptions.delivery.receipts.receipt_notifier import ReceiptNotifier
from subscriptions.realtime.events.receipts import ReceiptAdvanced
from tests.api.client import Api, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.receipt_calls import Receipts, receipt_advanced, without_cursor
from tests.api.receipts.lost_answers import only_session_rows_are_written


async def reserve_only(api: Api, sender: str, conversation: str) -> ReservedMessage:
    """Return a message that a server reserved before it died."""
    store = api.services.app.store
    message = Message(
        MessageId(store.ids.next()), ConversationId(conversation), UserId(sender), MessageKind.TEXT, "left behind"
    )
    reserved = await store.outbox.reserve(message)
    assert isinstance(reserved, ReservedMessage)
    return reserved


async def stored_receipts(api: Api) -> set[Any]:
    return set((await api.stored_documents()).get("receipts", {}))


@pytest.mark.parametrize(
    ("kind", "cached"),
    [
        ("private", True),
        ("group", False),
        pytest.param("private", False, marks=pytest.mark.long),
        pytest.param("group", True, marks=pytest.mark.long),
    ],
)
async def test_the_read_receipt_of_sending_survives_the_servers_death(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch, kind: str, cached: bool
) -> None:
    async with open_api("dropped") as api:
        receipts = Receipts(api)
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        conversation = private_id(alice, bob) if kind == "private" else await api.create_group(alice, bob, carol)
        messages = [(await api.send(alice, conversation if kind == "group" else bob))["message"] for _ in range(2)]
        await api.wait_until_idle()
        if cached:
            await api.sessions(bob)
        # The server does nothing after the answer.
        monkeypatch.setattr(ReceiptNotifier, "_start", lambda *_, **__: None)
        answer = (await api.send(bob, conversation if kind == "group" else alice))["message"]
        deployments.flush_redis("dropped")
        for message in messages:
            assert (await receipts.statuses(alice, message))[bob] == "READ"
        rows = [(await receipts.rows(alice, message))[0] for message in messages]
        assert rows[0]["deliveredAt"] == rows[0]["readAt"] == rows[1]["readAt"] >= answer["createdAt"]
        delivery = await receipts.delivery(alice, messages[1])
        assert delivery == (("READ", 1, 1, 1) if kind == "private" else ("SENT", 2, 1, 1))


async def test_sending_with_nothing_unread_stores_no_receipt(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.sessions(alice)
    await api.send(alice, group)
    await api.send(bob, group)
    before = await stored_receipts(api)
    await api.send(bob, group)
    await api.send(bob, group)
    assert await stored_receipts(api) == before
    await api.send(alice, group)
    assert await stored_receipts(api) - before == {f"{group} {alice} R{5:08x}"}


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("private", "reserved"),
        ("group", "committed"),
        pytest.param("private", "committed", marks=pytest.mark.long),
        pytest.param("group", "reserved", marks=pytest.mark.long),
    ],
)
async def test_a_message_finished_by_another_server_reads_and_sends_receipts(
    open_api: OpenApi, kind: str, step: str
) -> None:
    async with open_api("taken over") as api:
        receipts = Receipts(api)
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        conversation = private_id(alice, bob) if kind == "private" else await api.create_group(alice, bob, carol)
        to = conversation if kind == "group" else bob
        await api.send(alice, to)
        await api.mark_read(bob, conversation)
        message = (await api.send(alice, to))["message"]
        await api.wait_until_idle()
        sender = await api.listen(alice)
        reserved = await reserve_only(api, bob, conversation)
        store = api.services.app.store
        if step == "committed":
            await store.commits.commit([reserved], [store.clock.now_ms()], messages_first=False)
        assert await api.services.housekeeper.sweep(range(1024), idle_ms=0) == 1
        assert (await sender.next())["message"]["content"] == "left behind"
        assert without_cursor(await sender.next()) == receipt_advanced(conversation, bob, "READ", 3)
        assert (await receipts.statuses(alice, message))[bob] == "READ"
        await api.wait_until_idle()
        await sender.expect_no_event(0.03)


async def test_an_uncached_sender_sends_receipts_only_for_unread_messages(
    open_api: OpenApi, deployments: Deployments
) -> None:
    async with open_api("cold") as api:
        alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
        group = await api.create_group(alice, bob, carol)
        await api.send(alice, group)
        await api.mark_read(bob, group)
        await api.send(carol, group)
        await api.invite(alice, group, dave)
        await api.wait_until_idle()
        listeners = {user: await api.listen(user) for user in (alice, carol)}
        deployments.evict_user_state("cold", bob)
        for user in (bob, dave):
            await api.services.app.delivery.send(await reserve_only(api, user, group))
        for listener in listeners.values():
            assert (await listener.next())["__typename"] == "MessageCreated"
        await api.wait_until_idle()
        receipts_sent = {
            user: [without_cursor(event) for event in listener.pop_events() if event["__typename"] == "ReceiptAdvanced"]
            for user, listener in listeners.items()
        }
        # dave joined after the other messages, so he had nothing to read but bob's message.
        assert receipts_sent == {carol: [receipt_advanced(group, bob, "READ", 4)], alice: []}


@pytest.mark.parametrize("call", ["ack", "mark_read"])
@pytest.mark.parametrize("kind", ["private", "group"])
async def test_an_acknowledgement_written_without_an_answer_is_a_receipt(
    api: Api, monkeypatch: pytest.MonkeyPatch, call: str, kind: str
) -> None:
    """MongoDB wrote the session row and nothing else before the connection was lost."""
    receipts = Receipts(api)
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    conversation = private_id(alice, bob) if kind == "private" else await api.create_group(alice, bob, carol)
    message = (await api.send(alice, conversation if kind == "group" else bob))["message"]
    await api.wait_until_idle()
    sender = await api.listen(alice)
    with only_session_rows_are_written(api, monkeypatch):
        query = "ackDelivered(conversationId: $id, upToSeq: 1)" if call == "ack" else "markRead(conversationId: $id)"
        refusal = await api.expect_refusal(bob, f"mutation ($id: ID!) {{ {query} {{ id }} }}", id=conversation)
        assert (refusal.code, refusal.retryable) == ("UNAVAILABLE", True)
    await api.wait_until_idle()
    status = "DELIVERED" if call == "ack" else "READ"
    assert (await receipts.statuses(alice, message))[bob] == status
    delivery = await receipts.delivery(alice, message)
    assert delivery is not None
    assert delivery[2:] == (1, int(call == "mark_read"))
    assert without_cursor(await sender.next()) == receipt_advanced(conversation, bob, status, 1)
    # Repeating the call, as the error asks the client to do, changes nothing.
    await (api.ack(bob, conversation, 1) if call == "ack" else api.mark_read(bob, conversation))
    await api.wait_until_idle()
    await sender.expect_no_event(0.03)


async def test_a_receipt_that_cannot_be_stored_is_stored_later(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    message = (await api.send(alice, bob))["message"]
    store = api.services.app.store.receipts
    keep, failures = store.save_marks, [Unreachable("an election"), Unreachable("still")]

    async def fail_twice_then_keep(*args: Any) -> None:
        if failures:
            raise failures.pop()
        await keep(*args)

    monkeypatch.setattr(type(store), "save_marks", lambda _, *args: fail_twice_then_keep(*args))
    receipt = ReceiptAdvanced(ConversationId(private_id(alice, bob)), UserId(bob), ReceiptKind.DELIVERED, 1)
    api.services.app.receipts.notify(receipt, 0, at_ms=0, store_mark=True)
    await api.wait_until_idle()
    assert not failures
    assert await Receipts(api).statuses(alice, message) == {bob: "DELIVERED"}
