"""Events on shared clocks: their stored forms and their forms between servers never change."""

from __future__ import annotations

import orjson
import pytest

from store.base.ids import ConversationId, MessageId, UserId
from store.base.workspace_ids import WorkspaceId
from store.clocks.shared_clocks import ChangeList
from store.messages.message import Message, MessageKind
from subscriptions.realtime.events.base import ReplayContent
from subscriptions.realtime.events.shared import (
    SHARED_EVENT_KINDS,
    ChannelMessage,
    MessageChange,
    SharedEvent,
    WorkspaceUpdate,
    decode_shared_event,
    parse_shared_entry,
)

CHANNEL, ANN = ConversationId("c_7.1"), UserId("ann")
MESSAGE = Message(MessageId(9), CHANNEL, ANN, MessageKind.TEXT, "hi", 3, 2)
FIELDS = '{"c":"c_7.1","u":"ann","k":"T","t":"hi","i":"9","s":3,"n":2}'
UPDATE = WorkspaceUpdate(
    WorkspaceId("w_7"),
    12,
    is_changed=True,
    changes_rights=True,
    channels=(CHANNEL,),
    members=(ANN,),
    follows=((ANN, CHANNEL, True),),
)
UPDATE_FIELDS = '{"k":"W","w":"w_7","v":12,"f":"wr","c":["c_7.1"],"u":["ann"],"fo":[["ann","c_7.1",1]]}'

FORMS = [
    (
        ChannelMessage(MESSAGE, MessageChange.CREATED),
        f'{{"k":"M","h":"m","m":{FIELDS}}}',
        '{"k":"M","h":"m","c":"c_7.1","s":3,"v":0}',
        [(ChangeList.RECENT, CHANNEL)],
    ),
    (
        ChannelMessage(MESSAGE, MessageChange.UPDATED),
        f'{{"k":"M","h":"u","m":{FIELDS}}}',
        '{"k":"M","h":"u","c":"c_7.1","s":3,"v":0}',
        [],
    ),
    (
        ChannelMessage(MESSAGE, MessageChange.RECALLED),
        f'{{"k":"M","h":"x","m":{FIELDS}}}',
        '{"k":"M","h":"x","c":"c_7.1","s":3,"v":0}',
        [],
    ),
    (
        UPDATE,
        UPDATE_FIELDS,
        UPDATE_FIELDS,
        [*((ChangeList.CHANGED, name) for name in (CHANNEL, "w", "v")), (ChangeList.MEMBERS, "ann")],
    ),
    (
        WorkspaceUpdate(WorkspaceId("w_7"), is_deleted=True),
        '{"k":"W","w":"w_7","v":0,"f":"d"}',
        '{"k":"W","w":"w_7","v":0,"f":"d"}',
        [(ChangeList.CHANGED, "v")],
    ),
]


@pytest.mark.parametrize(("event", "wire", "logged", "objects"), FORMS)
def test_forms_of_shared_events_do_not_change(
    event: SharedEvent, wire: str, logged: str, objects: list[tuple[ChangeList, str]]
) -> None:
    assert event.owner == "w_7"
    assert orjson.dumps(event.encode()).decode() == wire
    assert decode_shared_event(orjson.loads(wire)) == event
    assert event.log_entry() == logged
    replayed = parse_shared_entry(logged.encode()).replay(ReplayContent({(CHANNEL, 3): MESSAGE}, {}, 0))
    assert replayed == event and event.at(5).rev == 5
    assert list(event.objects) == objects


def test_each_kind_has_a_form_here() -> None:
    assert {type(event) for event, *_ in FORMS} == set(SHARED_EVENT_KINDS)
    assert len({kind.code for kind in SHARED_EVENT_KINDS}) == len(SHARED_EVENT_KINDS)


def test_kinds_of_newer_servers_are_passed_over() -> None:
    assert decode_shared_event({"k": "?"}) is None
    assert parse_shared_entry(b'{"k":"?"}').replay(ReplayContent({}, {}, 0)) is None
