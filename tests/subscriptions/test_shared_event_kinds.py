"""Events on shared clocks: their stored forms and their forms between servers never change."""

from __future__ import annotations

import orjson
import pytest

from store.base.ids import ConversationId, MessageId, UserId
from store.base.workspace_ids import WorkspaceId
from store.clocks.shared_clocks import ChangeList
from store.messages.message import Message, MessageKind
from store.previews.message_embeds import MessageEmbeds
from store.reactions.reaction_summary import ReactionSummary
from store.voice.voice_state import VoiceState
from subscriptions.realtime.events.base import ReplayContent
from subscriptions.realtime.events.reactions import ChannelReactions
from subscriptions.realtime.events.shared import (
    ChannelMessage,
    ChannelPins,
    MessageChange,
    SharedEvent,
    WorkspaceUpdate,
)
from subscriptions.realtime.events.shared_registry import SHARED_EVENT_KINDS, decode_shared_event, parse_shared_entry
from subscriptions.realtime.events.threads import ChannelThread
from subscriptions.realtime.events.voice import VoiceStateChanged

CHANNEL, ANN = ConversationId("c_7.1"), UserId("ann")
MESSAGE = Message(MessageId(9), CHANNEL, ANN, MessageKind.TEXT, "hi", 3, 2)
FIELDS = '{"c":"c_7.1","u":"ann","k":"T","t":"hi","i":"9","s":3,"n":2}'
REACTED = Message(
    MessageId(8),
    CHANNEL,
    ANN,
    MessageKind.TEXT,
    "",
    4,
    3,
    reactions=(ReactionSummary(":a_b:", 1, (ANN,), 9),),
    reactions_version=2,
)
REACTED_FIELDS = '{"c":"c_7.1","u":"ann","k":"T","t":"","rx":[[":a_b:",1,["ann"],9]],"rv":2,"i":"8","s":4,"n":3}'
EMBEDDED = MESSAGE._replace(seq=5, embeds=MessageEmbeds(version=2))
EMBEDDED_FIELDS = '{"c":"c_7.1","u":"ann","k":"T","t":"hi","em":{"v":2},"i":"9","s":5,"n":2}'
UPDATE = WorkspaceUpdate(
    WorkspaceId("w_7"),
    12,
    is_changed=True,
    changes_rights=True,
    channels=(CHANNEL,),
    members=(ANN,),
    follows=((ANN, CHANNEL, True),),
)
VOICE = VoiceState(ANN, CHANNEL, "a phone", "s1", 8, self_mute=True, version=7)
VOICE_TEXT = "c_7.1 7 8 0 1 s1 a phone"
OTHER_VOICE = VoiceState(ANN, ConversationId("c_7.2"), "laptop", "s2", 5, version=6)
MOVED_FIELDS = f'{{"k":"V","w":"w_7","u":"ann","s":"{VOICE_TEXT}","b":"c_7.2 6 5 0 0 s2 laptop"}}'
LEFT_FIELDS = f'{{"k":"V","w":"w_7","u":"ann","s":"{VOICE_TEXT}","l":1}}'
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
        ChannelMessage(EMBEDDED, MessageChange.UPDATED),
        f'{{"k":"M","h":"u","m":{EMBEDDED_FIELDS}}}',
        '{"k":"M","h":"u","c":"c_7.1","s":5,"v":0,"e":2}',
        [],
    ),
    (
        ChannelMessage(MESSAGE, MessageChange.RECALLED),
        f'{{"k":"M","h":"x","m":{FIELDS}}}',
        '{"k":"M","h":"x","c":"c_7.1","s":3,"v":0}',
        [],
    ),
    (
        ChannelPins(MESSAGE, 4),
        f'{{"k":"P","m":{FIELDS},"v":4}}',
        '{"k":"P","c":"c_7.1","s":3,"v":4}',
        [],
    ),
    (
        ChannelReactions(REACTED),
        f'{{"k":"E","m":{REACTED_FIELDS}}}',
        '{"k":"E","c":"c_7.1","s":4,"v":2}',
        [],
    ),
    (ChannelThread(MESSAGE), f'{{"k":"T","m":{FIELDS}}}', '{"k":"T","c":"c_7.1","s":3}', []),
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
    (
        VoiceStateChanged(WorkspaceId("w_7"), VOICE, moved_from=OTHER_VOICE),
        MOVED_FIELDS,
        MOVED_FIELDS,
        [(ChangeList.CHANGED, "voice c_7.1 ann"), (ChangeList.CHANGED, "voice c_7.2 ann")],
    ),
    (
        VoiceStateChanged(WorkspaceId("w_7"), VOICE, left=True),
        LEFT_FIELDS,
        LEFT_FIELDS,
        [(ChangeList.CHANGED, "voice c_7.1 ann")],
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
    replayed = parse_shared_entry(logged.encode()).replay(
        ReplayContent({(CHANNEL, m.seq): m for m in (MESSAGE, REACTED, EMBEDDED)}, {}, 0)
    )
    assert replayed == event and event.at(5).rev == 5
    assert list(event.objects) == objects


def test_each_kind_has_a_form_here() -> None:
    assert {type(event) for event, *_ in FORMS} == set(SHARED_EVENT_KINDS)
    assert len({kind.code for kind in SHARED_EVENT_KINDS}) == len(SHARED_EVENT_KINDS)


def test_kinds_of_newer_servers_are_passed_over() -> None:
    assert decode_shared_event({"k": "?"}) is None
    assert parse_shared_entry(b'{"k":"?"}').replay(ReplayContent({}, {}, 0)) is None
