"""A device of the soak that listens: a snapshot, then events over a WebSocket, applied naively. It goes away at times, and comes
back to another server with the cursors it has."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence

import orjson
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from tests.invariants.soak_client import LIVE_MESSAGES, LIVE_SESSIONS, Client, Failed, Json, Tally
from tests.processes import ServerProcess, token
from tests.protocol.peer import open_socket

# Events of messages don't carry them; a client learns them from what it asks anew.
_NOT_TOLD = ("activeTs", "writeTs")
_SYNC, _LIVE = "sync", "live"


class Ended(Exception):
    """The server ended a subscription or the connection."""


class Listener:
    """One device with both subscriptions."""

    def __init__(self, tally: Tally, servers: Sequence[ServerProcess], user: str, seed: int) -> None:
        self.user = user
        self.sessions: dict[str, Json] = {}
        self.client = Client(tally, servers[seed % len(servers)], user)
        self._tally = tally
        self._servers = servers
        self._rng = random.Random(seed)
        self._cursors: dict[str, str | None] = {_SYNC: None, _LIVE: None}
        self._seen: set[tuple[str, int]] = set()
        self._snapshot_due = True
        self._told: dict[str, list[str]] = defaultdict(list)
        """What happened to each session here, to tell where the device was wrong."""
        self._task: asyncio.Task[None] | None = None
        self.idle = False
        """Whether everything that came has been applied."""

    async def start(self) -> None:
        """Connects, and follows from then on."""
        self._task = asyncio.create_task(self._follow())

    async def pause(self) -> None:
        """Goes away. What it has not applied yet it will be told again."""
        self.idle = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def come_and_go(self, until: float) -> None:
        """Reconnects at times until a time of the loop's clock. It is connected then."""
        loop = asyncio.get_running_loop()
        while True:
            away = self._rng.uniform(0.0, 0.6)
            await asyncio.sleep(self._rng.uniform(0.5, 2.5))
            if loop.time() + away > until:
                return
            await self.pause()
            await asyncio.sleep(away)
            await self.start()

    async def _follow(self) -> None:
        while True:
            server = self._rng.choice(self._servers)
            self._tally.notes["connections"] += 1
            try:
                async with open_socket(f"ws://127.0.0.1:{server.port}/graphql") as socket:
                    await self._listen(socket)
            except (Ended, ConnectionClosed, Failed) as end:
                # Failed: it asked in between, and could not be answered.
                self._tally.notes[f"connection ended: {_why(end)}"] += 1
                await asyncio.sleep(0.1)

    async def _listen(self, socket: ClientConnection) -> None:
        async def send(frame: Json) -> None:
            await socket.send(orjson.dumps(frame).decode())

        await send({"type": "connection_init", "payload": {"Authorization": f"Bearer {token(self.user)}"}})
        assert orjson.loads(await socket.recv())["type"] == "connection_ack"
        for name, query in ((_SYNC, LIVE_SESSIONS), (_LIVE, LIVE_MESSAGES)):
            payload = {"query": query, "variables": {"since": self._cursors[name]}}
            await send({"id": name, "type": "subscribe", "payload": payload})
        begun: set[str] = set()
        while True:
            try:
                # Not wait_for: that of Python 3.11 can swallow a cancellation.
                async with asyncio.timeout(0.05):
                    frame = orjson.loads(await socket.recv())
                self.idle = False
            except TimeoutError:
                self.idle = len(begun) == 2
                continue
            match frame["type"]:
                case "next":
                    begun.add(frame["id"])
                    await self._apply(frame["id"], frame["payload"])
                    if self._snapshot_due and len(begun) == 2:
                        await self._snapshot()
                case "ping":
                    await send({"type": "pong"})
                case _:
                    raise Ended(frame)

    async def _snapshot(self) -> None:
        listed = await self.client.list_all()
        names = {session["conversation"]["id"] for session in listed}
        for gateway in sorted(name for name in names if name.startswith("b_")):
            listed += await self.client.list_all(sub_biz=gateway.removeprefix("b_"))
        self.sessions = {session["conversation"]["id"]: session for session in listed}
        for session in listed:
            self._note("snapshot", session)
        self._snapshot_due = False

    # --- events

    async def _apply(self, name: str, payload: Json) -> None:
        if "errors" in payload:
            raise Ended(payload["errors"])
        (event,) = payload["data"].values()
        self._tally.notes[f"events: {event.get('__typename', event.get('reason'))}"] += 1
        if name == _SYNC:
            await self._apply_sync(event)
        else:
            await self._apply_live(event)
        # Last: what it is interrupted in, it is told again.
        self._cursors[name] = event["cursor"]

    async def _apply_sync(self, event: Json) -> None:
        if event["reset"] and event["reason"] == "CATCH_UP":
            self._tally.notes["resets"] += 1
            self._snapshot_due = True
        for session in event["sessions"]:
            conversation = session["conversation"]["id"]
            known = self.sessions.get(conversation, session)
            self._note(event["reason"], session)
            if session["writeSeq"] < known["writeSeq"]:
                # The other subscription was ahead of this one.
                await self._ask(conversation)
            elif session["activeTs"] >= known["activeTs"]:
                self.sessions[conversation] = session

    async def _ask(self, conversation: str) -> None:
        session = await self.client.ask("session", id=conversation)
        if session is None:
            self._tally.problem(f"listener {self.user}: was told of {conversation}, and has no session of it")
            return
        self._note("asked", session)
        self.sessions[conversation] = session
        gateway = f"b_{session['subBiz']}"
        if session["subBiz"] and self.sessions.get(gateway, {"status": "INVALID"})["status"] == "INVALID":
            await self._ask(gateway)

    async def _apply_live(self, event: Json) -> None:
        match event["__typename"]:
            case "MessageCreated":
                message = event["message"]
                await self._apply_message(message)
                self._seen.add((message["conversationId"], message["seq"]))
            case "ReceiptAdvanced":
                self._apply_receipt(event)
            case "CaughtUp" if event["reset"]:
                self._tally.notes["resets"] += 1
                self._snapshot_due = True

    async def _apply_message(self, message: Json) -> None:
        conversation, seq = message["conversationId"], message["seq"]
        if (conversation, seq) in self._seen:
            self._tally.problem(f"listener {self.user}: {conversation} {seq} came twice")
        session = self.sessions.get(conversation)
        self._told[conversation].append(f"message {seq} of {message['sender']['id']}")
        if session is None or session["status"] == "INVALID" or seq > session["writeSeq"] + 1:
            # Somebody new wrote, or a place was passed over: its message may come later, and is counted already.
            await self._ask(conversation)
            return
        own, counts = message["sender"]["id"] == self.user, message["contentType"] != "SYSTEM"
        mentioned = message["mentionsAll"] or self.user in [user["id"] for user in message["mentions"]]
        if seq <= session["writeSeq"]:
            if (own and counts and seq > session["readSeq"]) or mentioned:
                # One that others overtook is counted already, but not what it says of this user.
                await self._ask(conversation)
            return
        session["writeSeq"] = seq
        session["lastMessage"] = {name: message[name] for name in ("id", "seq", "content")}
        session["lastMessage"]["sender"] = {"id": message["sender"]["id"]}
        if own and counts:
            session |= {"unreadCount": 0, "unreadMentionCount": 0, "unreadStatus": False}
            session["readSeq"] = session["deliveredSeq"] = seq
        elif counts:
            session["unreadCount"] += 1
            session["unreadMentionCount"] += mentioned
            if session["peerReadSeq"] is not None:
                # Whoever wrote it has read it.
                session["peerReadSeq"] = session["peerDeliveredSeq"] = seq

    def _apply_receipt(self, event: Json) -> None:
        session = self.sessions.get(event["conversationId"])
        if session is None:
            return
        names = ["deliveredSeq", "readSeq"] if event["status"] == "READ" else ["deliveredSeq"]
        if event["user"]["id"] != self.user:
            names = ["peer" + name[0].upper() + name[1:] for name in names]
        for name in names:
            if session[name] is not None:
                session[name] = max(session[name], event["seq"])

    def _note(self, how: str, session: Json) -> None:
        names = ("activeTs", "writeSeq", "readSeq", "unreadCount", "status")
        self._told[session["conversation"]["id"]].append(f"{how} {[session[name] for name in names]}")

    # --- the end

    def differences(self, fresh: dict[str, Json]) -> list[str]:
        """Where it does not show what a fresh client is shown."""
        mine = {c: session for c, session in self.sessions.items() if session["status"] == "ACTIVE"}
        shown = {c: session for c, session in fresh.items() if session["status"] == "ACTIVE"}
        names = [f"listener {self.user}: {c} there: {c in mine}" for c in sorted(mine.keys() ^ shown.keys())]
        for conversation in sorted(mine.keys() & shown.keys()):
            held = self._gateway(conversation) if conversation.startswith("b_") else mine[conversation]
            for name, value in held.items():
                if name not in _NOT_TOLD and shown[conversation][name] != value:
                    told = "; ".join(self._told[conversation][-8:])
                    is_ = shown[conversation][name]
                    names.append(f"listener {self.user}: {conversation} {name} {value}, is {is_}; told: {told}")
        return names

    def _gateway(self, conversation: str) -> Json:
        """Its settings as told; its counts as the sessions inside give them, since messages don't say them."""
        inside = [s for s in self.sessions.values() if f"b_{s['subBiz']}" == conversation and s["status"] == "ACTIVE"]
        counted = [session for session in inside if not session["muteStatus"]]
        told = {name: self.sessions[conversation][name] for name in ("id", "priority", "muteStatus", "mutedUntil")}
        sums = {name: sum(s[name] for s in counted) for name in ("unreadCount", "unreadMentionCount")}
        return told | sums


def _why(end: Exception) -> str:
    if isinstance(end, ConnectionClosed):
        return str(end.rcvd.code if end.rcvd else 1006)
    return str(end)[:200]
