"""A naive device whose events and answers come from the API of one process."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, TIMEOUT_SECONDS, Api, Subscriber
from tests.naive_device import Json, NaiveDevice

_IS_READABLE = "query($id: ID!) { messages(conversationId: $id, last: 1) { pageInfo { endCursor } } }"


class ApiDevice(NaiveDevice):
    """One of a user's devices: a copy of the sessions and of every message that it received."""

    live_sessions: ClassVar[str] = LIVE_SESSIONS
    live_messages: ClassVar[str] = LIVE_MESSAGES

    def __init__(self, api: Api, user: str) -> None:
        super().__init__(user, asks_about_gaps=False)
        self.api = api
        self.messages: dict[str, Json] = {}
        self.receipts: list[tuple[str, str, str, int]] = []
        """Conversation, reader, status and seq of every receipt, in the order of its event."""
        self._active: dict[str, int] = {}
        self.seen: dict[str, list[int]] = {}
        """By conversation, the seq of every message in the order of its event."""
        self._live: Subscriber | None = None
        self._synced: Subscriber | None = None
        self._live_cursor: str | None = None
        self._synced_cursor: str | None = None

    @property
    def is_offline(self) -> bool:
        return self._live is None

    async def start(self) -> None:
        """Subscribe, then take a snapshot."""
        await self.resume(self.api)
        await self._take_snapshot()

    async def stop(self) -> None:
        """Unsubscribe and keep the copy."""
        assert self._live and self._synced
        await self.apply()
        await self._live.stop()
        await self._synced.stop()
        self._live = self._synced = None

    async def resume(self, api: Api) -> None:
        """Subscribe at any process from the last cursors."""
        self.api = api
        self.resubscribed_to_sessions()
        self._synced = await api.subscribe(self.user, self.live_sessions, since=self._synced_cursor)
        self._live = await api.subscribe(self.user, self.live_messages, since=self._live_cursor)

    async def apply(self) -> None:
        """Apply every event that has arrived."""
        assert self._live and self._synced
        for event in self._synced.pop_events():
            await self.handle_sync(event)
            await self._ask_questions()
        for event in self._live.pop_events():
            await self.handle_event(event)
            await self._ask_questions()

    async def handle_sync(self, event: Json) -> None:
        """Apply one event of syncSession; fail if a session's clock goes back."""
        self._synced_cursor = event["cursor"]
        for session in event["sessions"]:
            name, active = session["conversation"]["id"], session["activeTs"]
            # Two missed changes arrive as two events, both with the session as it is now.
            assert active >= self._active.get(name, 0), f"{name} was at {self._active[name]}, now {session}"
            self._active[name] = active
        self.apply_sync(event)

    async def handle_event(self, event: Json) -> None:
        """Apply one event of messageEvents; fail if a message is created twice."""
        self._live_cursor = event["cursor"]
        match event["__typename"]:
            case "MessageCreated":
                message = event["message"]
                seen = self.seen.setdefault(message["conversationId"], [])
                assert message["seq"] not in seen, f"{message['conversationId']} {message['seq']} came twice"
                seen.append(message["seq"])
                self.messages[message["id"]] = message
                self.apply_created(message)
            case "MessageUpdated" | "MessageRecalled":
                message = event["message"]
                if message["id"] in self.messages:
                    self.messages[message["id"]] = message
                self.apply_revised(message)
            case "GroupChanged":
                self.apply_group_changed(event)
            case "ReceiptAdvanced":
                self.receipts.append((event["conversationId"], event["user"]["id"], event["status"], event["seq"]))
                self.apply_receipt(event)
            case "CaughtUp" if event["reset"]:
                self.messages.clear()
                await self._take_snapshot()

    async def _take_snapshot(self) -> None:
        self.take_all(await self.fetch_sessions())

    async def _ask_questions(self) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.to_ask:
            name = self.to_ask.pop()
            session = await self.fetch_session(name)
            assert session is not None, name
            self.take(session)
            assert time.monotonic() < deadline, f"{name} does not settle: {session}"

    async def fetch_sessions(self) -> list[Json]:
        """Return all valid sessions."""
        return list((await self.api.all_sessions(self.user)).values())

    async def fetch_session(self, name: str) -> Json | None:
        """Return one session as the server has it now."""
        return await self.api.session(self.user, name)

    async def agrees(self) -> None:
        """Wait until the copy equals what a client without state is shown; fail if it does not come to that."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while wrong := await self._disagreements():
            assert time.monotonic() < deadline, f"{self.user}: " + "\n".join(wrong)
            await asyncio.sleep(0.01)

    async def _disagreements(self) -> list[str]:
        await self.apply()
        fresh = await self.api.all_sessions(self.user)
        wrong = self.differences(fresh, await self.api.total_unread(self.user))
        stored = await self._readable_messages()
        held = {id: _content(message) for id, message in self.messages.items()}
        return wrong + ([] if held == stored else [f"messages held {held}, stored {stored}"])

    async def _readable_messages(self) -> dict[str, Json]:
        """Return the held messages as the server has them; forget those of a dismissed group."""
        conversations = {message["conversationId"] for message in self.messages.values()}
        for conversation in list(conversations):
            if (await self.api.data(self.user, _IS_READABLE, id=conversation))["messages"] is None:
                conversations.discard(conversation)
                gone = [id for id, message in self.messages.items() if message["conversationId"] == conversation]
                for id in gone:
                    del self.messages[id]
        read = [message for name in sorted(conversations) for message in await self.api.history(self.user, name)]
        return {message["id"]: _content(message) for message in read if message["id"] in self.messages}


def _content(message: Json) -> Json:
    return {name: message[name] for name in ("seq", "content", "state", "editCount", "editedAt", "recalledAt")}
