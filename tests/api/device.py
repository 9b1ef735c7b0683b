"""A client as frontends write it: a snapshot first, then whatever events come, applied naively."""

from __future__ import annotations

import asyncio
import time

from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, PATIENCE_SECONDS, Api, Json, Subscriber

READABLE = "query($id: ID!) { messages(conversationId: $id, last: 1) { pageInfo { endCursor } } }"

# A client learns these two from what it asks anew: events of messages don't carry them.
_CLOCKS = ("activeTs", "writeTs")


class Device:
    """One of a user's devices: its own copy of the session list and of what it saw of each conversation."""

    def __init__(self, api: Api, user: str) -> None:
        self.api = api
        self.user = user
        self.sessions: dict[str, Json] = {}
        self.seen: dict[str, list[int]] = {}
        self.messages: dict[str, Json] = {}
        self.receipts: list[tuple[str, str, str, int]] = []
        self._told: dict[str, int] = {}
        self._live: Subscriber | None = None
        self._synced: Subscriber | None = None
        self._live_cursor: str | None = None
        self._synced_cursor: str | None = None

    @property
    def total(self) -> int:
        """The badge on the icon. The two subscriptions may be read in any order, so it is counted, not kept."""
        gateways = [session for session in self.sessions.values() if _is_gateway(session)]
        muted = {session["conversation"]["title"] for session in gateways if session["muteStatus"]}
        return sum(
            session["unreadCount"]
            for session in self.sessions.values()
            if not session["muteStatus"] and not _is_gateway(session) and session["subBiz"] not in muted
        )

    async def start(self) -> None:
        """Listens, then takes a snapshot."""
        await self._listen()
        await self._snapshot()

    async def stop(self) -> None:
        """Goes away, and keeps what it has."""
        assert self._live and self._synced
        await self.apply()
        await self._live.stop()
        await self._synced.stop()
        self._live = self._synced = None

    async def resume(self, api: Api) -> None:
        """Comes back, to another process perhaps, with the cursors it has."""
        self.api = api
        await self._listen()

    async def _listen(self) -> None:
        self._synced = await self.api.subscribe(self.user, LIVE_SESSIONS, since=self._synced_cursor)
        self._live = await self.api.subscribe(self.user, LIVE_MESSAGES, since=self._live_cursor)

    async def _snapshot(self) -> None:
        self.sessions = await self.api.all_sessions(self.user)

    async def apply(self) -> None:
        """Applies what has come so far."""
        assert self._live and self._synced
        for event in self._synced.arrived():
            await self._apply_sync(event)
        for event in self._live.arrived():
            await self._apply_event(event)

    async def _apply_sync(self, event: Json) -> None:
        self._synced_cursor = event["cursor"]
        if event["reset"]:
            self.sessions.clear()
        for session in event["sessions"]:
            conversation = session["conversation"]["id"]
            told = self._told.get(conversation, 0)
            # Two changes that were missed are told one by one, both with the session as it is by then.
            assert session["activeTs"] >= told, "told before"
            self._told[conversation] = session["activeTs"]
            known = self.sessions.get(conversation, session)
            if session["writeSeq"] < known["writeSeq"]:
                # The other subscription was ahead of this one.
                await self._ask(conversation)
            elif session["activeTs"] >= known["activeTs"]:
                self._show(session)

    async def _ask(self, conversation: str) -> None:
        session = await self.api.session(self.user, conversation)
        assert session is not None
        self._show(session)

    def _show(self, session: Json) -> None:
        conversation = session["conversation"]["id"]
        if session["status"] == "ACTIVE":
            self.sessions[conversation] = session
        else:
            self.sessions.pop(conversation, None)

    async def _apply_event(self, event: Json) -> None:
        self._live_cursor = event["cursor"]
        match event["__typename"]:
            case "MessageCreated":
                await self._apply_message(event["message"])
            case "MessageUpdated" | "MessageRecalled":
                self._apply_revision(event["message"])
            case "ReceiptAdvanced":
                self._apply_receipt(event)
            case "CaughtUp":
                if event["reset"]:
                    self.messages.clear()
                    await self._snapshot()

    async def _apply_message(self, message: Json) -> None:
        conversation, seq = message["conversationId"], message["seq"]
        seen = self.seen.setdefault(conversation, [])
        assert seq not in seen, f"{conversation} {seq} came twice"
        seen.append(seq)
        self.messages[message["id"]] = message
        session = self.sessions.get(conversation)
        if session is None:
            # Somebody new wrote, or one that was deleted may live again.
            await self._ask(conversation)
            session = self.sessions.get(conversation)
        elif seq > session["writeSeq"]:
            self._count(session, message)
        if session is not None and session["subBiz"] is not None:
            # What its gateway sums up can't be told from one message.
            await self._ask(f"b_{session['subBiz']}")

    def _apply_revision(self, message: Json) -> None:
        if message["id"] in self.messages:
            self.messages[message["id"]] = message
        for session in self.sessions.values():
            # What its gateway shows is the same message.
            last = session["lastMessage"]
            if last is not None and last["id"] == message["id"]:
                last["content"] = message["content"]

    def _count(self, session: Json, message: Json) -> None:
        seq = message["seq"]
        own, counts = message["sender"]["id"] == self.user, message["contentType"] != "SYSTEM"
        session["writeSeq"] = seq
        session["lastMessage"] = {name: message[name] for name in ("id", "seq", "content")}
        session["lastMessage"]["sender"] = {"id": message["sender"]["id"]}
        if own and counts:
            session["unreadCount"] = session["unreadMentionCount"] = 0
            session["readSeq"] = session["deliveredSeq"] = seq
            session["unreadStatus"] = False
        elif counts:
            session["unreadCount"] += 1
            mentioned = message["mentionsAll"] or {"id": self.user} in message["mentions"]
            session["unreadMentionCount"] += mentioned
            if session["peerReadSeq"] is not None:
                # Whoever wrote it has read it.
                session["peerReadSeq"] = session["peerDeliveredSeq"] = seq

    def _apply_receipt(self, event: Json) -> None:
        self.receipts.append((event["conversationId"], event["user"]["id"], event["status"], event["seq"]))
        session = self.sessions.get(event["conversationId"])
        if session is None:
            return
        own, read = event["user"]["id"] == self.user, event["status"] == "READ"
        if not own and session["peerReadSeq"] is None:
            return
        names = ("readSeq", "deliveredSeq") if own else ("peerReadSeq", "peerDeliveredSeq")
        for name in names if read else names[1:]:
            session[name] = max(session[name], event["seq"])

    async def agrees(self) -> None:
        """Waits until the device shows what a fresh client would be shown; fails where that does not come."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            await self.apply()
            fresh = await self.api.all_sessions(self.user)
            total = await self.api.total_unread(self.user)
            stored = await self._history()
            if (_shown(self.sessions), self.total, self._contents()) == (_shown(fresh), total, stored):
                return
            if time.monotonic() > deadline:
                assert _shown(self.sessions) == _shown(fresh)
                assert self.total == total
                assert self._contents() == stored
            await asyncio.sleep(0.01)

    def _contents(self) -> dict[str, Json]:
        """What the device shows of the messages that it heard of."""
        return {id: _content(message) for id, message in self.messages.items()}

    async def _history(self) -> dict[str, Json]:
        """The same messages as a fresh client reads them. What a dismissed group takes with it the device forgets."""
        conversations = {message["conversationId"] for message in self.messages.values()}
        for conversation in list(conversations):
            if (await self.api.data(self.user, READABLE, id=conversation))["messages"] is None:
                conversations.discard(conversation)
                gone = [id for id, message in self.messages.items() if message["conversationId"] == conversation]
                for id in gone:
                    del self.messages[id]
        read = [message for c in sorted(conversations) for message in await self.api.history(self.user, c)]
        return {message["id"]: _content(message) for message in read if message["id"] in self.messages}


def _content(message: Json) -> Json:
    return {name: message[name] for name in ("seq", "content", "state", "editCount", "editedAt", "recalledAt")}


def _is_gateway(session: Json) -> bool:
    kind: str = session["conversation"]["type"]
    return kind == "SUB_BIZ"


def _shown(sessions: dict[str, Json]) -> dict[str, Json]:
    return {
        conversation: {name: value for name, value in session.items() if name not in _CLOCKS}
        for conversation, session in sessions.items()
    }
