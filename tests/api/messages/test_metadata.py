"""Metadata of messages: any JSON value, carried wherever the message goes, withheld by a recall."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import ConversationId
from store.redis.cache import Call
from tests.api.client import Api, Json, Refusal, private_id
from tests.api.events import current_cursor, read_missed_events
from tests.api.revisions import ALL_PARTITIONS, count_outbox_entries, read_everywhere

ORDER: Json = {"order": {"id": "o-7", "items": [1, 2.5, None, True]}, "$where": "1", "a.b": {"": "\u0000"}, "ключ": "é"}
SEND_LITERAL = """mutation ($to: ID!, $id: JSON) { sendMessage(input: { toUserId: $to, content: "literal",
    metadata: { order: { id: $id, items: [1, "two", null] } } }) { message { metadata } } }"""


async def test_every_field_and_event_shows_the_metadata(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    since = await current_cursor(api, bob)
    listeners = [await api.listen(bob), await other_api.listen(bob)]
    sent = (await api.send(alice, bob, "hello", metadata=ORDER))["message"]
    assert sent["metadata"] == ORDER
    for listener in listeners:
        assert (await listener.next())["message"]["metadata"] == ORDER
    assert [event["message"]["metadata"] for event in await read_missed_events(api, bob, since)] == [ORDER]
    for reader in (api, other_api):
        shown = await read_everywhere(reader, bob, sent)
        assert [field for field, message in shown.items() if message["metadata"] != ORDER] == []
    keys = api.services.app.store.keys.conversation(ConversationId(private_id(alice, bob)))
    await api.services.app.store.cache.one(Call("DEL", keys))
    shown = await read_everywhere(api, bob, sent)
    assert [field for field, message in shown.items() if message["metadata"] != ORDER] == []


async def test_a_literal_in_the_document_is_metadata_too(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    payload = await api.data(alice, SEND_LITERAL, to=bob, id={"n": 1})
    expected = {"order": {"id": {"n": 1}, "items": [1, "two", None]}}
    assert payload["sendMessage"]["message"]["metadata"] == expected


async def test_no_metadata_is_null_and_is_not_stored(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for more in ({}, {"metadata": None}):
        sent = (await api.send(alice, bob, **more))["message"]
        assert sent["metadata"] is None
        assert "md" not in (await api.stored_documents())["messages"][int(sent["id"].removeprefix("m_"))]
    for value in (False, 0, "", {}, []):
        assert (await api.send(alice, bob, metadata=value))["message"]["metadata"] == value


async def test_an_edit_keeps_the_metadata_and_a_recall_withholds_it(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    since = await current_cursor(api, bob)
    listener = await api.listen(bob)
    sent = (await api.send(alice, bob, "hello", metadata=ORDER))["message"]
    assert (await api.edit(alice, sent["id"], "edited"))["metadata"] == ORDER
    assert [event["message"]["metadata"] for event in await listener.take(2)] == [ORDER, ORDER]
    assert (await api.recall(alice, sent["id"]))["metadata"] is None
    assert (await listener.next())["message"]["metadata"] is None
    assert {str(event["message"]["metadata"]) for event in await read_missed_events(api, bob, since)} == {"None"}
    for reader in (alice, bob):
        shown = await read_everywhere(api, reader, sent)
        assert [field for field, message in shown.items() if message["metadata"] is not None] == []
    await api.wait_until_idle()
    head = api.services.app.store.keys.conversation(ConversationId(private_id(alice, bob)))[0]
    record = await api.services.app.store.cache.one(Call("HGET", (head,), ("last",)))
    assert record is not None and b"o-7" not in record


async def test_another_value_under_the_same_key_is_a_conflict(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    first = await api.send(alice, bob, "x", idempotencyKey="k", metadata={"a": 1, "b": [2]})
    repeated = await api.send(alice, bob, "x", idempotencyKey="k", metadata={"b": [2], "a": 1})
    assert repeated["replayed"] is True and repeated["message"] == first["message"]
    for other in ({"a": 1, "b": [3]}, {}, None):
        refusal = await api.expect_send_refusal(alice, bob, "x", idempotencyKey="k", metadata=other)
        assert refusal == Refusal("IDEMPOTENCY_CONFLICT", "idempotencyKey")


REFUSED: dict[str, Any] = {
    "too large": "x" * 8191,
    "too deep": [[[[[[[[[0]]]]]]]]],
    "surrogate": {"a": "\ud800"},
    "surrogate in a key": {"\ud800": 1},
    "too long a number": [2**64],
    "infinity": {"k": float("inf")},
}


async def test_metadata_beyond_the_limits_is_refused_and_stores_nothing(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    await api.wait_until_idle()
    cursor = await current_cursor(api, bob)
    stored = await api.stored_hashes()
    for name, value in REFUSED.items():
        refusal = await api.expect_send_refusal(alice, bob, metadata=value, idempotencyKey=name)
        assert refusal == Refusal("INVALID_INPUT", "metadata"), name
    assert (await api.stored_hashes(), await current_cursor(api, bob)) == (stored, cursor)
    for name in REFUSED:
        assert (await api.send(alice, bob, idempotencyKey=name, metadata=["x" * 8188]))["replayed"] is False


async def test_people_outside_the_conversation_never_see_the_metadata(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group, metadata=ORDER))["message"]
    await api.invite(alice, group, dave)
    for outsider in (dave, "stranger"):
        assert await api.data(outsider, "query ($id: ID!) { message(id: $id) { metadata } }", id=sent["id"]) == {
            "message": None
        }


async def test_another_server_stores_the_metadata_of_a_message_from_the_outbox(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice, "before")
    await api.wait_until_idle()

    async def die(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(api.services.app.delivery, "send", die)
        dying = asyncio.create_task(api.send(alice, bob, "reserved", metadata=ORDER))
        while not await count_outbox_entries(api):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await other_api.services.housekeeper.sweep(ALL_PARTITIONS, -60_000)
        dying.cancel()
    (_, found) = await other_api.history(bob, private_id(alice, bob))
    assert (found["content"], found["metadata"]) == ("reserved", ORDER)
