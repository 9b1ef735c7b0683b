"""What people do with their devices while the torture lasts, and what becomes of the devices themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from tests.chaos.asking import GaveUp
from tests.chaos.device import Device
from tests.chaos.history import Json
from tests.chaos.wire import Lost, Refused
from tests.chaos.world import Room, Sent
from tests.processes import token

# What a person does, and how often of the sum of all.
_WEIGHTS = {
    "send": 28, "send_again": 3, "send_once": 3, "ask_ticks": 3, "read": 4, "mark_read": 14, "ack": 8, "mute": 4, "pin": 4, "set_unread": 3, "assign": 2, "delete": 3, "edit": 7,
    "recall": 3, "create_group": 0.7, "invite": 2, "remove": 1.5, "leave": 1, "dissolve": 0.2, "write": 6, "renew": 2,
}  # fmt: skip
_FAULTS = {"close": 3, "drop": 3, "stall": 3, "stall_long": 1, "go_offline": 2, "resubscribe": 2, "reinstall": 1}
_CATEGORIES = (None, "work", "family")

# Two people act at once: who is refused with one of these did not know yet what the other one had done.
_REFUSALS = {
    "send": {"NOT_A_MEMBER", "INVALID_INPUT", "FORBIDDEN"},
    "send_again": {"NOT_A_MEMBER", "INVALID_INPUT", "FORBIDDEN"},
    "send_once": {"NOT_A_MEMBER", "INVALID_INPUT", "FORBIDDEN"},
    "edit": {"NOT_A_MEMBER", "INVALID_INPUT", "NOT_FOUND"},
    "recall": {"NOT_A_MEMBER", "RECALL_TIMEOUT", "NOT_FOUND"},
    "invite": {"NOT_A_MEMBER"},
    "remove": {"NOT_A_MEMBER", "FORBIDDEN", "INVALID_INPUT"},
    "leave": {"NOT_A_MEMBER", "OWNER_CANNOT_LEAVE"},
    "dissolve": {"NOT_A_MEMBER", "NOT_FOUND", "FORBIDDEN"},
    "write": {"NOT_A_MEMBER"},
}


class Person:
    """Who holds one device. They act on what it shows."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.world = device.world
        self.rng = device.rng

    async def act(self, until: float, pause: float) -> None:
        """Until a time of the monotonic clock, with pauses of so many seconds on average."""
        while await self._rest(until, pause):
            await self.do(self.rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0])

    async def _rest(self, until: float, pause: float) -> bool:
        """Whether there is time left then."""
        await asyncio.sleep(min(self.rng.expovariate(1 / pause), until - time.monotonic()))
        return time.monotonic() < until

    async def do(self, name: str) -> None:
        """One thing."""
        operation: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
        try:
            await operation()
        except Refused as refused:
            if refused.code not in _REFUSALS.get(name, ()):
                self.world.tally.problem(f"{self.device.name}: {name}: {refused}")
        except GaveUp:
            # So it may be for as long as one fault follows another.
            self.world.tally.notes[f"not answered within {self.world.patience:.0f} s: {name}"] += 1

    async def harm(self, until: float, pause: float) -> None:
        """Things that happen to a device, every so many seconds."""
        while await self._rest(until, pause):
            await self.suffer(self.rng.choices(list(_FAULTS), list(_FAULTS.values()))[0])

    async def suffer(self, fault: str) -> None:
        """One of them."""
        device, line, reach = self.device, self.device.line, self.world.reach
        if line is None:
            return
        self.world.tally.notes[f"devices: {fault}"] += 1
        match fault:
            case "close":
                await line.leave(politely=True)
            case "drop":
                await line.leave(politely=False)
            case "stall":
                line.stall(self.rng.uniform(0.3, 3.0) * reach)
            case "stall_long":
                line.stall(self.rng.uniform(12.0, 30.0) * reach)
            case "go_offline":
                device.offline_until = time.monotonic() + self.rng.uniform(1.0, 20.0) * reach
                await line.leave(politely=self.rng.random() < 0.5)
            case "resubscribe":
                await device.resubscribe()
            case "reinstall":
                device.forgetful = True
                await line.leave(politely=True)

    # --- messages

    async def _send(self) -> None:
        await self.send(**self._new_message())

    async def _send_again(self) -> None:
        """With the key of one that was answered, or of one that is being sent at this moment."""
        given = self._new_message()
        text = self.world.text(self.device.user)
        if self.rng.random() < 0.5:
            await self.send(text, **given)
            await self.send(text, **given)
        else:
            both = await asyncio.gather(self.send(text, **given), self.send(text, **given), return_exceptions=True)
            for outcome in both:
                if isinstance(outcome, BaseException):
                    raise outcome

    async def _send_once(self) -> None:
        """Without a key, and so but once."""
        text = self.world.text(self.device.user)
        self.world.tried.add(text)
        await self.device.ask_once("sendMessage", input=self._new_message() | {"content": text})

    async def _ask_ticks(self) -> None:
        """How far one's own message is."""
        message = self._own_message()
        if message is not None:
            await self.device.ask("ticks", id=message)

    async def _read(self) -> None:
        """What somebody looks at who opens a conversation, or the application."""
        name = self._pick()
        if name is not None and self.rng.random() < 0.7:
            await self.device.ask("messages", id=name, last=20)
        elif name is not None:
            await self.device.ask("session", id=name)
        else:
            await self.device.ask("syncSessions", since=None)

    def _new_message(self) -> Json:
        shown = self._pick()
        given: Json = {"conversationId": shown}
        if shown is None or self.rng.random() < 0.2:
            peer = self.rng.choice([user for user in self.world.users if user != self.device.user])
            given = {"toUserId": peer}
            if self.rng.random() < 0.2:
                given["mentions"] = [peer]
        elif shown in self.world.rooms:
            room = self.world.rooms[shown]
            if self.rng.random() < 0.2:
                given["mentions"] = self.rng.sample(sorted(room.members), min(2, len(room.members)))
            if room.owner == self.device.user and self.rng.random() < 0.2:
                given["mentionAll"] = True
        held = self.device.view.messages.get(str(given.get("conversationId")))
        if held and self.rng.random() < 0.15:
            given["replyToId"] = self.rng.choice(list(held.values())).id
        return given

    async def send(self, text: str = "", **given: Any) -> None:
        """A message, with the same key until there is an answer."""
        world = self.world
        text = text or world.text(self.device.user)
        world.tried.add(text)
        began = time.time()
        answer = await self.device.ask("sendMessage", input=given | {"content": text, "idempotencyKey": text})
        message = answer["message"]
        world.tally.notes["sends answered as replays"] += answer["replayed"]
        sent = Sent(message["id"], message["conversationId"], message["seq"], self.device.user, began, time.time())
        world.sent.setdefault(text, sent)

    def _own_message(self) -> str | None:
        """One of the newest of this user's that are shown, not recalled."""
        name = self._pick()
        held = self.device.view.messages.get(name, {}) if name else {}
        own = [
            held[seq].id
            for seq in sorted(held)[-30:]
            if (held[seq].content or "").startswith(f"{self.device.user} says ")
        ]
        return self.rng.choice(own[-4:]) if own else None

    async def _edit(self) -> None:
        message = self._own_message()
        if message is not None:
            text = f"{self.world.text(self.device.user)}, edited"
            await self.device.ask("editMessage", id=message, text=text)
            self.world.edited.add(message)

    async def _recall(self) -> None:
        message = self._own_message()
        if message is not None:
            await self.device.ask("recallMessage", id=message)
            self.world.recalled.add(message)

    async def _write(self) -> None:
        name = self._pick()
        if name is not None:
            told = await self.device.ask("startTyping", id=name)
            self.world.tally.notes[f"startTyping answered {told}"] += 1

    async def _renew(self) -> None:
        """The token of the connection, which goes on."""
        line = self.device.line
        if line is not None and not line.stalled:
            try:
                await line.ask("renewAuth", {"token": token(self.device.user)})
                self.world.tally.operations["renewAuth"]["answered"] += 1
            except Lost as lost:
                self.world.tally.operations["renewAuth"][f"lost ({lost})"] += 1

    # --- sessions

    def _pick(self) -> str | None:
        """A conversation that is shown, half of the time one of the newest."""
        sessions = self.device.view.sessions
        valid = [name for name, session in sessions.items() if session["status"] == "ACTIVE"]
        shown = sorted(valid, key=lambda name: -int(sessions[name]["activeTs"]))
        if not shown:
            return None
        return self.rng.choice(shown[:5] if self.rng.random() < 0.5 else shown)

    async def _change(self, kind: str, **arguments: Any) -> None:
        name = self._pick()
        if name is not None:
            await self.device.ask(kind, id=name, **arguments)

    async def _mark_read(self) -> None:
        sessions = self.device.view.sessions
        unread = [name for name, s in sessions.items() if s["unreadCount"] and s["status"] == "ACTIVE"]
        name = self.rng.choice(unread) if unread else self._pick()
        if name is not None:
            partly = self.rng.random() < 0.3
            seq = self.rng.randint(sessions[name]["readSeq"], sessions[name]["writeSeq"] + 1) if partly else None
            await self.device.ask("markRead", id=name, seq=seq)

    async def _ack(self) -> None:
        name = self._pick()
        if name is not None:
            await self.device.ask("ackDelivered", id=name, seq=self.device.view.sessions[name]["writeSeq"])

    async def _mute(self) -> None:
        muted, until = self.rng.random() < 0.6, None
        if muted and self.rng.random() < 0.5:
            at = time.time() + 3600
            if self.rng.random() < 0.5:
                at = time.time() + 2.0 + self.rng.uniform(0.0, 6.0) * self.world.reach
                self.world.last_until = max(self.world.last_until, at)
            until = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        try:
            await self._change("muteSession", muted=muted, until=until)
        except Refused as refused:
            # Its end had come before the answer to the first try was lost.
            if until is None or refused.code != "INVALID_INPUT":
                raise

    async def _pin(self) -> None:
        await self._change("pinSession", priority=self.rng.choice([0, 0, 1, self.rng.randint(2, 1000)]))

    async def _set_unread(self) -> None:
        await self._change("setUnread")

    async def _delete(self) -> None:
        await self._change("deleteSession", hard=self.rng.random() < 0.3)

    async def _assign(self) -> None:
        picked = sorted({name for name in (self._pick() for _ in range(3)) if name is not None})
        if picked:
            await self.device.ask("assignCategory", ids=picked, category=self.rng.choice(_CATEGORIES))

    # --- groups

    async def _create_group(self) -> None:
        others = [user for user in self.world.users if user != self.device.user]
        await self.create_group(self.rng.sample(others, min(len(others), self.rng.randint(2, 7))))

    async def create_group(self, others: list[str]) -> str:
        """A group of this person's."""
        full = self.rng.random() < 0.4
        name = self.world.text(self.device.user)
        given = {
            "name": name,
            "memberIds": others,
            "historyVisibility": "FULL" if full else "SINCE_JOIN",
            "idempotencyKey": name,
        }
        group: str = (await self.device.ask("createGroup", input=given))["id"]
        self.world.rooms[group] = Room(self.device.user, {self.device.user, *others})
        if full:
            self.world.full.add(group)
        return group

    def _group(self) -> tuple[str, Room] | None:
        mine = [group for group, room in self.world.rooms.items() if self.device.user in room.members]
        if not mine:
            return None
        group = self.rng.choice(mine)
        return group, self.world.rooms[group]

    async def _invite(self) -> None:
        if found := self._group():
            group, room = found
            users = self.rng.sample(self.world.users, min(2, len(self.world.users)))
            await self.device.ask("inviteMembers", id=group, users=users)
            room.members.update(users)

    async def _remove(self) -> None:
        if (found := self._group()) and found[1].owner == self.device.user:
            group, room = found
            user = self.rng.choice(sorted(room.members - {self.device.user}) or [self.device.user])
            room.members.discard(user)
            await self.device.ask("removeMember", id=group, user=user)

    async def _leave(self) -> None:
        if (found := self._group()) and found[1].owner != self.device.user:
            group, room = found
            room.members.discard(self.device.user)
            await self.device.ask("leaveGroup", id=group)

    async def _dissolve(self) -> None:
        if (found := self._group()) and found[1].owner == self.device.user:
            group, room = found
            del self.world.rooms[group]
            room.members.clear()
            await self.device.ask("deleteConversation", id=group)
