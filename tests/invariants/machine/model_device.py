"""A naive device that is compared with the model, in its sessions and in every event that it received."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from tests.api.client import TIMEOUT_SECONDS, Api
from tests.api.device import ApiDevice
from tests.invariants.machine.deployment import SESSION, SYNC
from tests.invariants.machine.reading import MESSAGE
from tests.invariants.machine.received_events import ReceivedEvents
from tests.invariants.model.sessions import SessionModel
from tests.naive_device import GATEWAY_PREFIX, Json

LIVE_SESSIONS = f"""subscription ($since: Cursor) {{ syncSession(since: $since) {{
    reason hasMore totalUnread cursor reset sessions {{ {SESSION} }} }} }}"""
LIVE_MESSAGES = f"""subscription ($since: Cursor, $id: ID) {{ messageEvents(since: $since, conversationId: $id) {{
    __typename
    ... on MessageCreated {{ cursor message {{ {MESSAGE} }} }}
    ... on MessageUpdated {{ cursor message {{ {MESSAGE} }} }}
    ... on MessageRecalled {{ cursor message {{ {MESSAGE} }} }}
    ... on GroupChanged {{ cursor group {{ id name avatarUrl metadata owner {{ id }} historyVisibility }} }}
    ... on ReceiptAdvanced {{ cursor conversationId status seq user {{ id }} }}
    ... on ReactionsChanged {{ cursor messageId reactions {{ emoji count viewerReacted users {{ id }} }} }}
    ... on PinsChanged {{ cursor pinCount message {{ {MESSAGE} }} }}
    ... on CaughtUp {{ cursor reset }} }} }}"""
ASK = f"query ($id: ID!) {{ session(conversationId: $id) {{ {SESSION} }} }}"

_NOT_MODELLED = ("id", "activeTs", "writeTs", "conversation", "lastMessage")


class ModelDevice(ApiDevice):
    """One device of a walk."""

    live_sessions = LIVE_SESSIONS
    live_messages = LIVE_MESSAGES

    def __init__(self, api: Api, user: str, ids: Mapping[tuple[str, int], str]) -> None:
        """ids: of messages, by conversation and seq."""
        super().__init__(api, user)
        self.received = ReceivedEvents(user, ids)
        self._furthest: dict[tuple[str, str, str], int] = {}

    async def appear(self, model: SessionModel) -> None:
        """Subscribe for the first time, and take a snapshot."""
        self.received.begin(model)
        await self.start()

    async def come_back(self, api: Api, model: SessionModel, waits: bool = True) -> None:
        """Subscribe at any process, at a quiet moment, from the last cursors.

        waits: Until it has caught up, so that each replayed message has its present form. Otherwise operations run
        during the replay, and a message has the form of its event or a later one.
        """
        self.received.replaying = model if waits else None
        await self.resume(api)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.received.replaying:
            await self.apply()
            assert time.monotonic() < deadline, f"{self.user} does not catch up"
            await asyncio.sleep(0.001)

    async def handle_sync(self, event: Json) -> None:
        """Note the event, then apply it."""
        self.received.note_sync(event)
        await super().handle_sync(event)

    async def handle_event(self, event: Json) -> None:
        """Note the event, then apply it; fail if a receipt does not advance."""
        self.received.note_event(event)
        if event["__typename"] == "ReceiptAdvanced":
            name, reader, status = event["conversationId"], event["user"]["id"], event["status"]
            before = max(self._furthest.get((name, reader, known), 0) for known in ("READ", status))
            assert event["seq"] > before, f"{reader} was further in {name} than {event}"
            self._furthest[name, reader, status] = event["seq"]
        await super().handle_event(event)

    async def fetch_sessions(self) -> list[Json]:
        """Return all sessions, by synchronisation from nothing."""
        found: list[Json] = []
        delta: Json = {"cursor": None, "hasMore": True}
        while delta["hasMore"]:
            delta = (await self.api.data(self.user, SYNC, since=delta["cursor"]))["syncSessions"]
            found += delta["sessions"]
        return found

    async def fetch_session(self, name: str) -> Json | None:
        """Return one session with the fields that the model knows."""
        session: Json | None = (await self.api.data(self.user, ASK, id=name))["session"]
        return session

    async def agrees_with(self, model: SessionModel) -> None:
        """Wait until the copy and the events are those of the model; fail if it does not come to that."""
        names = [name for name in model.names(self.user) if model.is_valid(self.user, name)]
        expected = {name: model.session_for(self.user, name) for name in names}
        deadline = time.monotonic() + TIMEOUT_SECONDS
        await self.apply()
        while wrong := self._wrong_sessions(expected) or self.received.wrong(model):
            assert time.monotonic() < deadline, f"{self.user}: {wrong}"
            await asyncio.sleep(0.005)
            await self.apply()
        self.received.begin(model)

    def _wrong_sessions(self, expected: dict[str, Json]) -> str:
        held = self._modelled_sessions()
        names = [name for name in expected.keys() | held.keys() if expected.get(name) != held.get(name)]
        return "\n".join(f"{name}: expected {expected.get(name)}, held {held.get(name)}" for name in names)

    def _modelled_sessions(self) -> dict[str, Json]:
        """Return the valid sessions without what the model does not know. A gateway counts what is inside it."""
        held = {
            name: {field: value for field, value in session.items() if field not in _NOT_MODELLED}
            for name, session in self.active_sessions.items()
        }
        for name, session in held.items():
            if name.startswith(GATEWAY_PREFIX):
                inside = [s for s in held.values() if f"{GATEWAY_PREFIX}{s['subBiz']}" == name and not s["muteStatus"]]
                for count in ("unreadCount", "unreadMentionCount"):
                    session[count] = sum(s[count] for s in inside)
        return held
