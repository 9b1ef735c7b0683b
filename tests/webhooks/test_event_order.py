"""Events of new messages come in the order of history, whatever the order in which servers have noted them."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.ids import ConversationId, MessageId, UserId, private_id
from store.messages.message import Message, MessageKind
from tests.api.client import Api
from tests.api.conftest import OpenApi
from tests.webhooks.calls import admin, create_webhook
from tests.webhooks.conftest import no_sweeps, settle
from tests.webhooks.endpoint import Endpoint


async def reserve(api: Api, sender: str, conversation: ConversationId, text: str) -> Any:
    """Return a message with a place that no process is storing."""
    store = api.services.app.store
    message = Message(MessageId(store.ids.next()), conversation, UserId(sender), MessageKind.TEXT, text)
    await store.conversations.load((conversation,), with_members=True)
    return await store.outbox.reserve(message)


async def test_an_event_waits_for_an_earlier_message_that_is_not_stored_yet(api: Api, endpoint: Endpoint) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(UserId(alice), UserId(bob))
    await create_webhook(api, admin(), endpoint.url)
    await api.send(alice, bob, "1")
    await endpoint.wait_for(1)
    async with no_sweeps(api):
        reserved = await reserve(api, alice, conversation, "2")
        await api.send(alice, bob, "3")
        await settle(api, waiting=1)
        assert endpoint.texts() == ["1"]
    await api.services.app.delivery.send(reserved, recovered=True)
    await endpoint.wait_for(3)
    assert endpoint.texts() == ["1", "2", "3"]


@pytest.mark.parametrize("later", [1, 5])
async def test_other_conversations_do_not_wait(
    api: Api, endpoint: Endpoint, later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.delivery.webhooks.log_writer._ENTRIES", 4)
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    conversation = private_id(UserId(alice), UserId(bob))
    await create_webhook(api, admin(), endpoint.url)
    await api.send(alice, bob, "1")
    await endpoint.wait_for(1)
    async with no_sweeps(api):
        reserved = await reserve(api, alice, conversation, "2")
        for number in range(later):
            await api.send(alice, bob, str(3 + number))
        await api.send(alice, carol, "other")
        await endpoint.wait_for(2)
        assert endpoint.texts() == ["1", "other"]
    await api.services.app.delivery.send(reserved, recovered=True)
    await endpoint.wait_for(3 + later)
    assert [text for text in endpoint.texts() if text != "other"] == [str(1 + number) for number in range(2 + later)]


async def test_a_message_whose_note_comes_later_is_written_with_the_next_one(
    open_api: OpenApi, endpoint: Endpoint
) -> None:
    async with open_api("reordered", allow_loopback=True, workers=False) as api:
        alice, bob = await api.create_users("alice", "bob")
        await create_webhook(api, admin(), endpoint.url)
        for number in range(1, 4):
            await api.send(alice, bob, str(number))
        store = api.services.app.store
        conversation = private_id(UserId(alice), UserId(bob))
        messages = await store.messages.find_many([(conversation, seq) for seq in (1, 2, 3)])
        await store.webhook_notes.remove(await store.webhook_notes.list_entries(100))
        for seq in (3, 1):
            await store.cache.run(api.services.app.webhook_notes.note_calls([messages[conversation, seq]]))
        async with open_api("reordered", allow_loopback=True):
            await endpoint.wait_for(3)
    assert endpoint.texts() == ["1", "2", "3"]
    assert len(endpoint.received) == 3


async def test_messages_from_before_a_webhook_are_not_sent(api: Api, endpoint: Endpoint) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "before")
    await api.wait_until_idle()
    await create_webhook(api, admin(), endpoint.url)
    await api.send(alice, bob, "after")
    await endpoint.wait_for(1)
    await settle(api)
    assert endpoint.texts() == ["after"]


@pytest.mark.parametrize("is_noted", [True, False], ids=["noted later", "never noted"])
async def test_an_edit_comes_after_its_message(open_api: OpenApi, endpoint: Endpoint, is_noted: bool) -> None:
    name = f"edited {is_noted}"
    async with open_api(name, allow_loopback=True, workers=False) as api:
        alice, bob = await api.create_users("alice", "bob")
        await create_webhook(api, admin(), endpoint.url)
        store, notes = api.services.app.store, api.services.app.webhook_notes
        conversation = private_id(UserId(alice), UserId(bob))
        sent = (await api.send(alice, bob, "1"))["message"]
        place = (conversation, sent["seq"])
        created = (await store.messages.find_many([place]))[place]
        await api.wait_until_idle()
        await store.webhook_notes.remove(await store.webhook_notes.list_entries(100))
        # The server that sent the message is slow, or died before it noted it.
        await api.edit(alice, sent["id"], "2")
        if is_noted:
            await store.cache.run(notes.note_calls([created]))
        async with open_api(name, allow_loopback=True):
            await endpoint.wait_for(2)
    assert [each.type for each in endpoint.received] == ["MESSAGE_CREATED", "MESSAGE_UPDATED"]
