"""Events, frames and questions that only servers of a later version know are ignored, and block nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import orjson
import pytest

from store.base.errors import Unreachable
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from subscriptions.realtime.events.base import ConversationEvent, Fields, WholeEvent
from subscriptions.realtime.events.messages import MessageCreated
from subscriptions.realtime.events.receipts import ReceiptAdvanced
from subscriptions.realtime.events.registry import UnknownEntry, decode_event, parse_log_entry
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.events.shared import ChannelMessage, SharedEvent, WorkspaceUpdate
from subscriptions.realtime.events.shared_registry import decode_shared_event, parse_shared_entry
from tests.api.channels.test_workspace_events import live, missed
from tests.api.client import LIVE_MESSAGES, Api
from tests.api.sample_channels import create_sample_channels


@dataclass(frozen=True, slots=True)
class Later(ConversationEvent):
    """An event of users' clocks that this version does not know, because no registry has it."""

    code = "later"

    def wire_fields(self) -> Fields:
        return {"c": self.conversation}

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        return cls(ConversationId(fields["c"]))


@dataclass(frozen=True, slots=True)
class LaterOfWorkspace(SharedEvent):
    """An event of the clock of a workspace that this version does not know."""

    code = "later"

    workspace: WorkspaceId

    @property
    def owner(self) -> str:
        return self.workspace

    def wire_fields(self) -> Fields:
        return {"w": self.workspace}

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        return cls(WorkspaceId(fields["w"]))

    @classmethod
    def parse_entry(cls, fields: Fields) -> WholeEvent:
        return WholeEvent(cls.from_wire(fields))

    def log_entry(self) -> str:
        return orjson.dumps(self.encode()).decode()


async def test_an_unknown_event_of_a_user_stops_neither_live_events_nor_a_resume(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = ConversationId((await api.send(alice, bob, "one"))["message"]["conversationId"])
    since = (await (await other_api.subscribe(bob, LIVE_MESSAGES)).next())["cursor"]
    subscriber = await other_api.listen(bob)
    await api.services.app.publisher.publish(Later(conversation), [UserId(bob)])
    await api.send(alice, bob, "two")
    assert (await subscriber.next())["message"]["content"] == "two"
    resumed = await other_api.subscribe(bob, LIVE_MESSAGES, since=since)
    events = [await resumed.next() for _ in range(2)]
    assert [event["__typename"] for event in events] == ["MessageCreated", "CaughtUp"]
    assert not events[1]["reset"]


async def test_an_unknown_event_of_a_workspace_stops_neither_live_events_nor_a_resume(api: Api, other_api: Api) -> None:
    channels = await create_sample_channels(api)
    workspace = channels.id
    subscriber, rev = await live(other_api, channels.member, workspace)
    await api.services.app.shared_events.append(LaterOfWorkspace(workspace))
    await api.services.app.shared_events.append(WorkspaceUpdate(workspace, is_changed=True))
    assert (await subscriber.next())["__typename"] == "WorkspaceChanged"
    events, reset = await missed(other_api, channels.member, workspace, rev)
    assert [event["__typename"] for event in events] == ["WorkspaceChanged"]
    assert not reset


async def test_frames_of_unknown_kinds_and_with_unknown_parts_are_ignored(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    subscriber = await other_api.listen(bob)
    store, server = api.services.app.store, other_api.services.app.hub.server
    for frame in (
        {"later": {"x": 1}},
        {"later": 1, "users": [alice]},
        {"events": [[{"k": "later"}, [[bob, "epoch", 2, 1]], "more"]]},
        {"shared": ["w_1", "epoch", 2, 1, 0, {"k": "later"}, "more"]},
        {"typing": ["g_1", alice, 5, [bob], "0", "more"]},
    ):
        await store.cache.one(store.cache.publish_call(store.keys.channel(server), orjson.dumps(frame)))
    assert (await subscriber.next())["__typename"] == "TypingStarted"
    await api.send(alice, bob, "still there")
    assert (await subscriber.next())["message"]["content"] == "still there"


async def test_an_unknown_question_is_answered_at_once(api: Api, other_api: Api) -> None:
    calls, server = api.services.app.bus.calls, other_api.services.app.hub.server
    with pytest.raises(Unreachable, match="does not know this kind of question"):
        await calls.ask(server, {"later": 1}, timeout_seconds=20)


MESSAGE = {"i": "7", "c": "g_1", "u": "anna", "k": "T", "t": "text", "s": 3, "n": 3}


@pytest.mark.parametrize(
    "fields",
    [
        {"k": "later"},
        {"x": 1},
        {"k": ReceiptAdvanced.code, "c": "g_1", "u": "anna", "st": "LATER", "s": 1},
        {"k": MessageCreated.code},
        {"k": WorkspaceUpdate.code, "f": 7},
    ],
)
def test_an_event_that_is_not_understood_shows_nothing_and_does_not_raise(fields: dict[str, Any]) -> None:
    text = orjson.dumps(fields)
    assert isinstance(parse_log_entry(text), UnknownEntry)
    assert isinstance(parse_shared_entry(text), UnknownEntry)
    assert decode_event(fields) is None
    assert decode_shared_event(fields) is None


def test_unknown_fields_of_known_events_are_passed_on_with_the_message() -> None:
    event = decode_event({"k": MessageCreated.code, "m": MESSAGE | {"poll": ["a", "b"]}, "later": 1})
    assert isinstance(event, MessageCreated)
    assert event.encode()["m"]["poll"] == ["a", "b"]


def test_a_session_that_changed_for_an_unknown_reason_is_shown() -> None:
    event = decode_event({"k": SessionChanged.code, "r": "LATER", "u": "anna", "o": [["g_1", {}]], "t": 0})
    assert isinstance(event, SessionChanged)
    assert event.reason.name == "CATCH_UP"
    entry = parse_log_entry(orjson.dumps({"k": SessionChanged.code, "r": "LATER", "c": ["g_1"]}))
    assert list(entry.session_conversations) == ["g_1"]
    known = parse_log_entry(orjson.dumps({"k": SessionChanged.code, "r": "CATEGORY", "n": "LATER", "c": ["g_1"]}))
    assert known.reason.value == "CATEGORY"  # type: ignore[attr-defined]


def test_an_unknown_change_of_a_message_shows_the_message() -> None:
    event = decode_shared_event({"k": ChannelMessage.code, "h": "later", "m": MESSAGE | {"c": "c_1.1"}})
    assert isinstance(event, ChannelMessage)
    assert event.change.name == "UPDATED"
