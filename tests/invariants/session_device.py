"""A client as frontends write it: a snapshot by synchronisation, then whatever events come, applied naively."""

from __future__ import annotations

import asyncio
import time

from tests.api.client import PATIENCE_SECONDS, Api, Subscriber
from tests.invariants.session_model import Json, SessionModel, gateway
from tests.invariants.session_reading import MESSAGE
from tests.invariants.session_told import Ears
from tests.invariants.session_world import SESSION, SYNC

LIVE_SESSIONS = f"""subscription ($since: Cursor) {{ syncSession(since: $since) {{
    reason hasMore totalUnread cursor reset sessions {{ {SESSION} }} }} }}"""
LIVE_MESSAGES = f"""subscription ($since: Cursor, $id: ID) {{ messageEvents(since: $since, conversationId: $id) {{
    __typename
    ... on MessageCreated {{ cursor message {{ {MESSAGE} }} }}
    ... on MessageUpdated {{ cursor message {{ {MESSAGE} }} }}
    ... on MessageRecalled {{ cursor message {{ {MESSAGE} }} }}
    ... on ReceiptAdvanced {{ cursor conversationId status seq user {{ id }} }}
    ... on CaughtUp {{ cursor reset }} }} }}"""
ASK = f"query ($id: ID!) {{ session(conversationId: $id) {{ {SESSION} }} }}"

_GROWING = ("readSeq", "deliveredSeq", "peerReadSeq", "peerDeliveredSeq")
_SEEN_ELSEWHERE = ("id", "activeTs", "writeTs", "conversation", "lastMessage")


class Device:
    """One of a user's devices: its own copy of the user's sessions."""

    def __init__(self, api: Api, user: str) -> None:
        self.api = api
        self.user = user
        self.sessions: dict[str, Json] = {}
        self.ears = Ears(user)
        self.cursor: str | None = None
        self._messages_cursor: str | None = None
        self._told: dict[str, int] = {}
        self._seen: set[tuple[str, int]] = set()
        self._receipts: dict[tuple[str, str, str], int] = {}
        self._synced: Subscriber | None = None
        self._live: Subscriber | None = None

    @property
    def away(self) -> bool:
        return self._live is None

    async def start(self, model: SessionModel) -> None:
        """Listens, then takes a snapshot."""
        self.ears.begin(model)
        await self.resume(self.api, model)
        await self._snapshot()

    async def stop(self) -> None:
        """Goes away, and keeps what it has."""
        assert self._live and self._synced
        await self.apply()
        await self._live.stop()
        await self._synced.stop()
        self._live = self._synced = None

    async def resume(self, api: Api, model: SessionModel) -> None:
        """Comes back, to another process perhaps, with the cursors it has, at a quiet moment."""
        self.api = api
        self.ears.replaying = model
        self._synced = await api.subscribe(self.user, LIVE_SESSIONS, since=self.cursor)
        self._live = await api.subscribe(self.user, LIVE_MESSAGES, since=self._messages_cursor)

    async def _snapshot(self) -> None:
        self.sessions.clear()
        delta: Json = {"cursor": None, "hasMore": True}
        while delta["hasMore"]:
            delta = (await self.api.data(self.user, SYNC, since=delta["cursor"]))["syncSessions"]
            self.sessions |= {session["conversation"]["id"]: session for session in delta["sessions"]}

    async def apply(self) -> None:
        """Applies what has come so far."""
        assert self._live and self._synced
        for event in self._synced.arrived():
            await self._apply_sync(event)
        for event in self._live.arrived():
            await self._apply_event(event)

    async def _apply_sync(self, event: Json) -> None:
        self.cursor = event["cursor"]
        self.ears.hear_sync(event)
        if event["reset"]:
            self.sessions.clear()
        for session in event["sessions"]:
            name = session["conversation"]["id"]
            told = self._told.get(name, 0)
            # What is told of the past is told as it is now, so it may be told again.
            assert session["activeTs"] >= told, f"{name} was told at {told}, and now at {session['activeTs']}"
            self._told[name] = session["activeTs"]
            known = self.sessions.get(name)
            if session["writeSeq"] < (known or session)["writeSeq"] or (name[:2] == "b_" and _invalid(session)):
                # The other subscription was ahead of this one.
                await self._ask(name)
            elif known is None or session["activeTs"] >= known["activeTs"]:
                self._show(session)

    async def _ask(self, name: str) -> None:
        session = (await self.api.data(self.user, ASK, id=name))["session"]
        assert session is not None, name
        self._show(session)

    def _show(self, session: Json) -> None:
        name = session["conversation"]["id"]
        known = self.sessions.pop(name, session)
        if not _invalid(session):
            # Receipts, which the other subscription tells, only grow.
            kept = {field: max(known[field], session[field]) for field in _GROWING if session[field] is not None}
            self.sessions[name] = session | kept

    async def _apply_event(self, event: Json) -> None:
        self._messages_cursor = event["cursor"]
        self.ears.hear(event)
        match event["__typename"]:
            case "MessageCreated":
                await self._apply_message(event["message"])
            case "ReceiptAdvanced":
                self._apply_receipt(event["conversationId"], event["user"]["id"], event["status"], event["seq"])
            case "CaughtUp":
                if event["reset"]:
                    await self._snapshot()

    async def _apply_message(self, message: Json) -> None:
        name, seq = message["conversationId"], message["seq"]
        assert (name, seq) not in self._seen, f"{name} {seq} came twice"
        self._seen.add((name, seq))
        session = self.sessions.get(name)
        if session is None:
            # Somebody new wrote, or somebody whom the user had deleted.
            await self._ask(name)
            session = self.sessions.get(name)
            if session and session["subBiz"]:
                await self._ask(gateway(session["subBiz"]))
            return
        if seq <= session["writeSeq"]:
            return
        session["writeSeq"] = seq
        if message["contentType"] == "SYSTEM":
            return
        if message["sender"]["id"] == self.user:
            session |= {"unreadCount": 0, "unreadMentionCount": 0, "unreadStatus": False}
            session["readSeq"] = session["deliveredSeq"] = seq
            return
        session["unreadCount"] += 1
        session["unreadMentionCount"] += message["mentionsAll"] or {"id": self.user} in message["mentions"]
        if session["peerReadSeq"] is not None:
            # Whoever wrote it has read it.
            session["peerReadSeq"] = session["peerDeliveredSeq"] = seq

    def _apply_receipt(self, name: str, reader: str, status: str, seq: int) -> None:
        before = max(self._receipts.get((name, reader, known), 0) for known in ("READ", status))
        assert seq > before, f"{reader} was further in {name} than {status} {seq}"
        self._receipts[name, reader, status] = seq
        session = self.sessions.get(name)
        if session is None:
            return
        fields: tuple[str, ...] = ()
        if reader == self.user:
            fields = ("deliveredSeq", "readSeq")
        elif session["peerReadSeq"] is not None:
            fields = ("peerDeliveredSeq", "peerReadSeq")
        for field in fields if status == "READ" else fields[:1]:
            session[field] = max(session[field], seq)

    def shown(self) -> dict[str, Json]:
        """What it shows, clocks apart: events of messages don't carry them. A gateway's numbers are those of what is inside."""
        shown = {
            name: {field: value for field, value in session.items() if field not in _SEEN_ELSEWHERE}
            for name, session in self.sessions.items()
        }
        for name, session in shown.items():
            if name.startswith("b_"):
                inside = [s for s in shown.values() if s["subBiz"] == name[2:] and not s["muteStatus"]]
                for count in ("unreadCount", "unreadMentionCount"):
                    session[count] = sum(s[count] for s in inside)
        return shown

    async def agrees(self, model: SessionModel) -> None:
        """Waits until it shows what the model says, and has heard of all that happened; fails where that does not come."""
        names = [name for name in model.names(self.user) if model.valid(self.user, name)]
        expected = {name: model.session(self.user, name) for name in names}
        deadline = time.monotonic() + PATIENCE_SECONDS
        await self.apply()
        while (shows := self.shown() == expected) is False or self.ears.wrong(model):
            wrong = self.ears.wrong(model) if shows else _difference(expected, self.shown())
            assert time.monotonic() < deadline, f"{self.user}: {wrong}"
            await asyncio.sleep(0.005)
            await self.apply()
        self.ears.begin(model)


def _invalid(session: Json) -> bool:
    return bool(session["status"] == "INVALID")


def _difference(expected: dict[str, Json], shown: dict[str, Json]) -> str:
    names = [name for name in expected.keys() | shown.keys() if expected.get(name) != shown.get(name)]
    return "\n".join(f"{name}: expected {expected.get(name)}, shown {shown.get(name)}" for name in names)
