"""Rows and records that only servers of a later version understand are kept, and block nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import orjson
import pytest
from structlog.testing import capture_logs

from resolvers.webhooks.outgoing import deliverer
from store.base.clock import SystemClock
from store.base.ids import PARTITIONS, ConversationId, MessageId, UserId, partition_of, private_id
from store.content_rules.content_rule import ContentAction, ContentRule, rule_fields, rule_from
from store.devices.device_fields import DeviceField, device_from
from store.jobs.job import Job, JobId, JobKind
from store.messages.message import Message, MessageKind, ReservedMessage, message_from
from store.messages.outbox.outbox_entries import OutboxField
from store.mongo.collections import JOBS, MESSAGES, SESSIONS, WEBHOOKS
from store.notifications.notification_settings import DEFAULT_SETTINGS, settings_from
from store.push.noted_conversations import NotedConversation, NotedMessages, noted_from
from store.redis.cache import Call
from store.sessions.fields import ROW_FIELDS
from store.store import Store
from store.voice.voice_state import VoiceState, voice_state_from
from store.webhooks.event_rows import NotedEvent
from store.workspaces.documents import channel_from
from tests.api.client import Api
from tests.api.conftest import OpenApi
from tests.webhooks.calls import admin, create_webhook
from tests.webhooks.conftest import settle
from tests.webhooks.endpoint import Endpoint, open_endpoint

ANNA, BEN = UserId("anna"), UserId("ben")
PRIVATE = private_id(ANNA, BEN)
ALL = range(PARTITIONS)


async def _add_entry(store: Store, **fields: str | bytes | int) -> str:
    """Put an entry into the outbox of the conversation."""
    entry = {OutboxField.SEQ: 0, OutboxField.N: 0, OutboxField.CONVERSATION: PRIVATE, OutboxField.MESSAGE: "{}"}
    parts = [part for pair in (entry | fields).items() for part in pair]
    outbox = store.keys.conversation(PRIVATE)[2]
    return str((await store.cache.one(Call("XADD", (outbox,), ("*", *parts)))).decode())


async def _reserve(store: Store, text: str) -> MessageId:
    message = Message(MessageId(store.ids.next()), PRIVATE, ANNA, MessageKind.TEXT, text)
    await store.conversations.open_private(PRIVATE, store.clock.now_ms())
    await store.conversations.find(PRIVATE)
    assert isinstance(await store.outbox.reserve(message), ReservedMessage)
    return message.id


@pytest.mark.parametrize(
    "fields",
    [
        {OutboxField.KIND: "later"},
        {OutboxField.REVISION: orjson.dumps(["7", 1, "later", 0])},
        {OutboxField.MESSAGE: "not JSON"},
    ],
)
async def test_an_unknown_outbox_entry_stays_and_delays_no_other(store: Store, fields: dict[str, str]) -> None:
    unknown = [await _add_entry(store, **fields) for _ in range(5)]
    id = await _reserve(store, "known")
    with capture_logs() as logs:
        found = [await store.outbox.list_waiting(ALL, -60_000, 3) for _ in range(3)]
    assert [entry.message.id for entry in found[-1] if not isinstance(entry, tuple)] == [id]  # type: ignore[union-attr]
    assert await store.outbox.contains(PRIVATE, id)
    outbox = store.keys.conversation(PRIVATE)[2]
    present = {entry.decode() for entry, _ in await store.cache.one(Call("XRANGE", (outbox,), ("-", "+")))}
    assert present >= set(unknown)
    logged = [entry["entry"] for entry in logs if entry["event"] == "outbox_entry_not_understood"]
    assert sorted(logged) == unknown


async def test_unknown_entries_delay_no_other_if_partitions_are_listed_in_turn(store: Store) -> None:
    for _ in range(5):
        await _add_entry(store, **{OutboxField.KIND: "later"})
    id = await _reserve(store, "known")
    partition = partition_of(PRIVATE)
    found = []
    for _ in range(3):
        found = await store.outbox.list_waiting([partition], -60_000, 3)
        assert await store.outbox.list_waiting([(partition + 1) % PARTITIONS], -60_000, 3) == []
    assert [entry.message.id for entry in found if isinstance(entry, ReservedMessage)] == [id]


async def test_a_message_that_another_server_finishes_keeps_its_unknown_fields(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    app, conversation = api.services.app, private_id(UserId(alice), UserId(bob))
    store = app.store
    message = Message(MessageId(store.ids.next()), conversation, UserId(alice), MessageKind.TEXT, "vote")
    await store.conversations.open_private(conversation, store.clock.now_ms())
    await store.conversations.find(conversation)
    later = message._replace(unknown=orjson.dumps({"k": "P", "poll": {"options": ["a", "b"]}}))
    assert isinstance(await store.outbox.reserve(later), ReservedMessage)
    # If this process pauses for 5 s, its housekeeper may have finished the message before.
    await api.services.housekeeper.sweep(ALL, -60_000)
    await api.wait_until_idle()
    row = await store.mongo.find_one(MESSAGES, {"_id": int(message.id)})
    assert row is not None
    assert (row["k"], row["poll"], row["t"]) == ("P", {"options": ["a", "b"]}, "vote")
    (shown,) = await api.history(bob, conversation)
    assert shown["content"] == "vote"


def test_unknown_fields_of_a_message_are_kept_unless_it_was_recalled() -> None:
    fields = {"i": "7", "c": "g_1", "u": "anna", "k": "T", "t": "text", "s": 3, "n": 3}
    later = {"poll": ["a"], "at2": 5}
    kept = orjson.loads(message_from(fields | later).to_json())
    assert {name: kept[name] for name in later} == later
    assert message_from(fields).unknown == b""
    assert message_from(fields | {"when": datetime.now(UTC)}).unknown == b""
    assert message_from(fields | later | {"rc": 5}).unknown == b""
    recalled = message_from(fields | later | {"k": "P", "rc": 5})
    assert (recalled.kind, orjson.loads(recalled.unknown)) == (MessageKind.TEXT, {"k": "P"})


async def test_a_state_that_this_version_loads_has_the_unknown_fields_of_rows(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = (await api.send(alice, bob, "hello"))["message"]["conversationId"]
    await api.wait_until_idle()
    store, user = api.services.app.store, UserId(bob)
    await api.data(bob, "mutation ($id: ID!) { pinSession(conversationId: $id, priority: 3) { id } }", id=conversation)
    row = {"_id": f"{bob} {conversation}"}
    assert await store.mongo.update_one(SESSIONS, row, {"$set": {"note": "later", "flags": [1, 2]}})
    await store.cache.one(Call("DEL", (store.keys.of_user(user, "meta"),)))
    await api.data(bob, "{ totalUnread }")
    await api.send(alice, bob, "again")
    (found,) = (await store.sessions.find_many(user, [ConversationId(conversation)])).sessions
    assert (found.record["note"], found.record["flags"]) == ("later", [1, 2])
    assert found.priority == 3
    assert "note" not in ROW_FIELDS


async def test_an_unknown_job_waits_for_a_server_that_knows_it(store: Store) -> None:
    job = Job(JobId("7"), JobKind.EXPORT, ANNA, store.clock.now_ms())
    await store.jobs.create(job)
    row = await store.mongo.find_one(JOBS, {"_id": "7"})
    assert row is not None
    later = row | {"_id": "6", next(name for name, value in row.items() if value == JobKind.EXPORT.value): "later"}
    await store.mongo.insert_one(JOBS, later)
    assert [found.id for found in await store.jobs.list_newest(ANNA, 10)] == ["7"]
    assert sum((await store.jobs.count_all()).values()) == 1
    assert await store.jobs.find("6") is None
    leased = await store.jobs.lease(list(JobKind))
    assert leased is not None and leased.id == "7"
    assert await store.jobs.lease(list(JobKind)) is None
    assert await store.mongo.find_one(JOBS, {"_id": "6"}) == later


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with open_endpoint() as opened:
        yield opened


async def test_an_unknown_webhook_event_is_left_in_its_stream_and_stops_no_other(
    open_api: OpenApi, endpoint: Endpoint
) -> None:
    async with open_api("webhooks", allow_loopback=True) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        webhook = await create_webhook(api, admin(), endpoint.url)
        store, conversation = api.services.app.store, private_id(UserId(alice), UserId(bob))
        await store.mongo.update_one(WEBHOOKS, {"_id": webhook["id"]}, {"$push": {"e": "LATER"}})
        later = NotedEvent("later-1", "LATER", conversation, ("x",), store.clock.now_ms())
        await store.cache.run(store.webhook_notes.note_calls([later]))
        await api.send(alice, bob, "one")
        await api.send(alice, carol, "two")
        await endpoint.wait_for(2)
        await settle(api, waiting=1)
        await settle(api, waiting=1)
        # Events of two conversations are delivered at the same time.
        assert sorted(endpoint.texts()) == ["one", "two"]
        assert await store.webhook_notes.count() == 1


@pytest.mark.parametrize("age_ms", [0, 2 * deliverer.UNKNOWN_TYPE_HELD_MS])
async def test_an_unknown_webhook_event_in_the_log_waits_and_is_dropped_after_an_hour(
    open_api: OpenApi, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, age_ms: int
) -> None:
    async with open_api("delivering", allow_loopback=True) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        webhook = await create_webhook(api, admin(), endpoint.url)
        store, conversation = api.services.app.store, private_id(UserId(alice), UserId(bob))
        monkeypatch.setattr(deliverer, "UNKNOWN_TYPE_RETRY_MS", 50)
        await api.send(alice, carol, "elsewhere")
        await endpoint.wait_for(1)
        later = NotedEvent("later-1", "LATER", conversation, ("x",), store.clock.now_ms() - age_ms)
        assert await api.services.webhooks.writer.write() >= 0
        await store.webhook_log.append([(webhook["id"], later)])
        await api.send(alice, bob, "after")
        await api.send(alice, carol, "meanwhile")
        await endpoint.wait_for(2)
        await settle(api)
        assert endpoint.texts() == ["elsewhere", "meanwhile"]
        monkeypatch.setattr(deliverer, "UNKNOWN_TYPE_HELD_MS", 0)
        await endpoint.wait_for(3)
        assert endpoint.texts()[-1] == "after"


def test_unknown_values_of_rows_are_read_as_known_ones() -> None:
    device = {DeviceField.ID: "anna phone", DeviceField.TYPE: "WATCH", DeviceField.CREATED: 1, DeviceField.SEEN: 2}
    pushed = device | {DeviceField.PLATFORM: "LATER", DeviceField.TOKEN: "t"}
    assert (device_from(device).type.name, device_from(pushed).push) == ("WEB", None)
    assert settings_from({"l": "LATER"}).level == DEFAULT_SETTINGS.level
    rule = ContentRule("1", ("word",), (), ContentAction.BLOCK, frozenset(), frozenset())
    stored = rule_fields(rule)
    assert rule_from(stored) == rule
    assert rule_from(stored | {"a": "later"}) is None
    channel = {"_id": "w_1 c_1.1", "n": "x", "k": "LATER", "p": 1, "ct": 1}
    assert channel_from(channel) is None


def test_unknown_parts_of_records_are_kept_or_ignored() -> None:
    record = NotedConversation(NotedMessages(1, 2, ANNA))
    assert noted_from(record.to_text() + " more") == record
    state = VoiceState(ANNA, ConversationId("c_1.1"), "phone", "server", SystemClock().now_ms(), video=True)
    text = state.encode().split(" ")
    text[4] = str(int(text[4]) + 4096)
    later = " ".join(text)
    assert voice_state_from(ANNA, later).encode() == later
    assert voice_state_from(ANNA, later).video
