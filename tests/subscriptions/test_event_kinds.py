"""Event kinds: their stored forms never change, and each one is registered everywhere."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest

from schema.events.registry import MESSAGE_EVENT_TYPES
from store.base.ids import ConversationId, ConversationKind, MessageId, UserId
from store.conversations.conversation import Head
from store.conversations.group_info import GroupInfo
from store.messages.message import Message, MessageKind
from store.receipts.receipt_marks import ReceiptKind
from store.sessions.fields import SyncReason
from store.sessions.session import Session
from subscriptions.realtime.events.base import EphemeralEvent, Event, ReplayContent
from subscriptions.realtime.events.groups import GroupChanged
from subscriptions.realtime.events.messages import MessageCreated, MessageRecalled, MessageUpdated
from subscriptions.realtime.events.receipts import ReceiptAdvanced
from subscriptions.realtime.events.registry import EPHEMERAL_KINDS, EVENT_KINDS, decode_event, parse_log_entry
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.events.typing import TypingStarted, TypingStopped

GROUP, ANN = ConversationId("g_1"), UserId("ann")
MESSAGE = Message(MessageId(7), GROUP, ANN, MessageKind.TEXT, "hi", 3, 2)
MESSAGE_FIELDS = '{"c":"g_1","u":"ann","k":"T","t":"hi","i":"7","s":3,"n":2}'
SESSION = Session(ANN, GROUP, {"s": 3})
RECEIPT = ReceiptAdvanced(GROUP, ANN, ReceiptKind.READ, 3)
RECEIPT_FIELDS = '{"k":"r","c":"g_1","u":"ann","st":"R","s":3}'
INFO = GroupInfo("Tea", None, ANN, False, 7, metadata="[1]")
HEAD = Head(GROUP, ConversationKind.GROUP, 0, None, 3, INFO, version=4)
CONTENT = ReplayContent({(GROUP, 3): MESSAGE}, {GROUP: SESSION}, 5, {GROUP: HEAD})

FORMS: list[tuple[Event, str, Callable[[], str], str]] = [
    (
        MessageCreated(MESSAGE),
        f'{{"k":"m","m":{MESSAGE_FIELDS}}}',
        lambda: MessageCreated.log_entry(MESSAGE),
        '{"k":"m","c":"g_1","s":3}',
    ),
    (
        MessageUpdated(MESSAGE),
        f'{{"k":"u","m":{MESSAGE_FIELDS}}}',
        lambda: MessageUpdated.log_entry(MESSAGE),
        '{"k":"u","c":"g_1","s":3,"v":0}',
    ),
    (
        MessageRecalled(MESSAGE),
        f'{{"k":"x","m":{MESSAGE_FIELDS}}}',
        lambda: MessageRecalled.log_entry(MESSAGE),
        '{"k":"x","c":"g_1","s":3,"v":0}',
    ),
    (
        GroupChanged(HEAD),
        '{"k":"g","c":"g_1","v":4,"n":3,"g":{"name":"Tea","own":"ann","ct":7,"md":"[1]"}}',
        lambda: GroupChanged.log_entry(GROUP, 4),
        '{"k":"g","c":"g_1","v":4}',
    ),
    (RECEIPT, RECEIPT_FIELDS, RECEIPT.log_entry, RECEIPT_FIELDS),
    (
        SessionChanged(SyncReason.READ, (SESSION,), 5, RECEIPT),
        f'{{"k":"s","r":"READ","u":"ann","t":5,"o":[["g_1",{{"s":3}}]],"a":{RECEIPT_FIELDS}}}',
        lambda: SessionChanged.log_entry(SyncReason.READ, [GROUP], RECEIPT),
        f'{{"k":"s","r":"READ","c":["g_1"],"a":{RECEIPT_FIELDS}}}',
    ),
    (
        # Servers of an earlier version show the reason that they know.
        SessionChanged(SyncReason.NOTIFICATIONS, (SESSION,), 5),
        '{"k":"s","r":"CATEGORY","n":"NOTIFICATIONS","u":"ann","t":5,"o":[["g_1",{"s":3}]]}',
        lambda: SessionChanged.log_entry(SyncReason.NOTIFICATIONS, [GROUP]),
        '{"k":"s","r":"CATEGORY","n":"NOTIFICATIONS","c":["g_1"]}',
    ),
]
IDS = [type(event).__name__ for event, *_ in FORMS]


@pytest.mark.parametrize(("event", "wire", "log_entry", "stored"), FORMS, ids=IDS)
def test_an_event_keeps_its_form_between_servers_and_in_the_log(
    event: Event, wire: str, log_entry: Callable[[], str], stored: str
) -> None:
    assert orjson.dumps(event.encode()).decode() == wire
    assert decode_event(orjson.loads(wire)) == event
    assert log_entry() == stored
    assert parse_log_entry(stored.encode()).replay(CONTENT) == event


@pytest.mark.parametrize(("kind", "frame"), [(TypingStarted, "typing"), (TypingStopped, "typing_stopped")])
def test_an_ephemeral_event_keeps_its_form_between_servers(kind: type[EphemeralEvent], frame: str) -> None:
    event = kind(GROUP, ANN, 9)
    assert (event.frame, event.encode()) == (frame, ["g_1", "ann", 9])
    assert kind.decode(event.encode()) == event


def test_a_kind_that_only_newer_servers_know_shows_nothing() -> None:
    assert decode_event({"k": "newer", "c": "g_1"}) is None
    assert parse_log_entry(b'{"k":"newer","c":"g_1"}').replay(CONTENT) is None


def test_no_two_kinds_share_a_code_or_a_frame() -> None:
    assert len({kind.code for kind in EVENT_KINDS}) == len(EVENT_KINDS)
    assert len({kind.frame for kind in EPHEMERAL_KINDS}) == len(EPHEMERAL_KINDS)


def test_every_kind_has_a_graphql_type() -> None:
    # Changes of sessions are shown by syncSession.
    assert {*EVENT_KINDS, *EPHEMERAL_KINDS} - {SessionChanged} <= MESSAGE_EVENT_TYPES.keys()
