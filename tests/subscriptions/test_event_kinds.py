"""Event kinds: their stored forms never change, and each one is registered everywhere."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest

from schema.events.registry import MESSAGE_EVENT_TYPES
from store.base.ids import ConversationId, ConversationKind, MessageId, ThreadPlace, UserId
from store.conversations.conversation import Head
from store.conversations.group_info import GroupInfo
from store.messages.message import Message, MessageKind
from store.previews.embed import Embed, EmbedField, EmbedKind
from store.previews.message_embeds import MessageEmbeds
from store.reactions.reaction_summary import ReactionSummary
from store.receipts.receipt_marks import ReceiptKind
from store.sessions.fields import SyncReason
from store.sessions.session import Session
from subscriptions.realtime.events.base import EphemeralEvent, Event, ReplayContent
from subscriptions.realtime.events.groups import GroupChanged
from subscriptions.realtime.events.messages import MessageCreated, MessageRecalled, MessageUpdated, PinsChanged
from subscriptions.realtime.events.reactions import ReactionsChanged
from subscriptions.realtime.events.receipts import ReceiptAdvanced
from subscriptions.realtime.events.registry import EPHEMERAL_KINDS, EVENT_KINDS, decode_event, parse_log_entry
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.events.shared import MessageChange
from subscriptions.realtime.events.threads import ThreadChanged
from subscriptions.realtime.events.typing import TypingStarted, TypingStopped
from subscriptions.realtime.events.watched import WatchedMessage

GROUP, ANN = ConversationId("g_1"), UserId("ann")
MESSAGE = Message(MessageId(7), GROUP, ANN, MessageKind.TEXT, "hi", 3, 2)
MESSAGE_FIELDS = '{"c":"g_1","u":"ann","k":"T","t":"hi","i":"7","s":3,"n":2}'
REACTED = Message(
    MessageId(8),
    GROUP,
    ANN,
    MessageKind.TEXT,
    "",
    4,
    3,
    reactions=(ReactionSummary(":a_b:", 1, (ANN,), 9),),
    reactions_version=2,
)
REACTED_FIELDS = '{"c":"g_1","u":"ann","k":"T","t":"","rx":[[":a_b:",1,["ann"],9]],"rv":2,"i":"8","s":4,"n":3}'
EMBEDDED = MESSAGE._replace(
    seq=5,
    embeds=MessageEmbeds((Embed(EmbedKind.RICH, False, title="t", fields=(EmbedField("a", "b"),)),), 2, 9, True),
)
EMBEDDED_FIELDS = (
    '{"c":"g_1","u":"ann","k":"T","t":"hi","em":{"e":[["R",false,null,"t",null,null,null,null,null,null,'
    '[["a","b",false]],null]],"v":2,"p":9,"s":true},"i":"7","s":5,"n":2}'
)
SESSION = Session(ANN, GROUP, {"s": 3})
RECEIPT = ReceiptAdvanced(GROUP, ANN, ReceiptKind.READ, 3)
RECEIPT_FIELDS = '{"k":"r","c":"g_1","u":"ann","st":"R","s":3}'
INFO = GroupInfo("Tea", None, ANN, False, 7, metadata="[1]")
HEAD = Head(GROUP, ConversationKind.GROUP, 0, None, 3, INFO, version=4)
CONTENT = ReplayContent(
    {(GROUP, 3): MESSAGE, (GROUP, 4): REACTED, (GROUP, 5): EMBEDDED}, {GROUP: SESSION}, 5, {GROUP: HEAD}
)

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
        MessageUpdated(EMBEDDED),
        f'{{"k":"u","m":{EMBEDDED_FIELDS}}}',
        lambda: MessageUpdated.log_entry(EMBEDDED),
        '{"k":"u","c":"g_1","s":5,"v":0,"e":2}',
    ),
    (
        MessageRecalled(MESSAGE),
        f'{{"k":"x","m":{MESSAGE_FIELDS}}}',
        lambda: MessageRecalled.log_entry(MESSAGE),
        '{"k":"x","c":"g_1","s":3,"v":0}',
    ),
    (
        PinsChanged(MESSAGE),
        f'{{"k":"p","m":{MESSAGE_FIELDS}}}',
        lambda: PinsChanged.log_entry(MESSAGE, 4),
        '{"k":"p","c":"g_1","s":3,"v":4}',
    ),
    (
        GroupChanged(HEAD),
        '{"k":"g","c":"g_1","v":4,"n":3,"g":{"name":"Tea","own":"ann","ct":7,"md":"[1]"}}',
        lambda: GroupChanged.log_entry(GROUP, 4),
        '{"k":"g","c":"g_1","v":4}',
    ),
    (
        ThreadChanged(MESSAGE),
        f'{{"k":"t","m":{MESSAGE_FIELDS},"n":""}}',
        lambda: ThreadChanged.log_entry(ThreadPlace(GROUP, 3)),
        '{"k":"t","c":"g_1","s":3}',
    ),
    (
        WatchedMessage(MESSAGE, MessageChange.UPDATED),
        f'{{"k":"w","h":"u","m":{MESSAGE_FIELDS}}}',
        lambda: WatchedMessage.log_entry(MESSAGE, MessageChange.UPDATED),
        '{"k":"w","h":"u","c":"g_1","s":3,"v":0}',
    ),
    (
        WatchedMessage(EMBEDDED, MessageChange.UPDATED),
        f'{{"k":"w","h":"u","m":{EMBEDDED_FIELDS}}}',
        lambda: WatchedMessage.log_entry(EMBEDDED, MessageChange.UPDATED),
        '{"k":"w","h":"u","c":"g_1","s":5,"v":0,"e":2}',
    ),
    (
        ReactionsChanged(REACTED),
        f'{{"k":"e","m":{REACTED_FIELDS}}}',
        lambda: ReactionsChanged.log_entry(REACTED, for_watchers=False),
        '{"k":"e","c":"g_1","s":4}',
    ),
    (
        ReactionsChanged(REACTED, for_watchers=True),
        f'{{"k":"e","m":{REACTED_FIELDS},"w":1}}',
        lambda: ReactionsChanged.log_entry(REACTED, for_watchers=True),
        '{"k":"e","c":"g_1","s":4,"w":1}',
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
    # Changes of sessions are shown by syncSession, watched messages by channelEvents.
    assert {*EVENT_KINDS, *EPHEMERAL_KINDS} - {SessionChanged, WatchedMessage} <= MESSAGE_EVENT_TYPES.keys()
