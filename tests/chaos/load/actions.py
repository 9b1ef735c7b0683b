"""The actions of people with their devices, and what happens to the devices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from tests.chaos.judges.history import Json
from tests.chaos.load.connection import AnswerLost, RequestFailed
from tests.chaos.load.device import Device
from tests.chaos.load.load_end import LoadEnd
from tests.chaos.load.load_state import GroupState, SentMessage
from tests.chaos.load.requester import GaveUp
from tests.processes import token

SUB_BIZ = ("shop", "help")
CATEGORIES = ("work", "family")

# Each action, and its share of the sum of all.
_DEPARTURES = {"leave", "remove"}
"""Members lose what they see in a group and its threads, and may get it back."""

_WEIGHTS = {
    "send": 28, "send_again": 3, "send_without_key": 3, "read_delivery": 3, "read": 7, "sync": 3, "mark_read": 14,
    "ack": 8, "mute": 4, "pin": 4, "set_unread": 3, "assign": 3, "delete": 3, "edit": 7, "recall": 3,
    "create_group": 0.7, "invite": 2, "remove": 1.5, "leave": 1, "dissolve": 0.2, "type": 6, "renew": 2,
    "change_many": 1,
}  # fmt: skip
_DISTURBANCES = {"close": 3, "drop": 3, "stall": 3, "stall_long": 1, "go_offline": 2, "resubscribe": 2, "reinstall": 1}
CHANGES = ("mark_read", "mute", "pin", "set_unread", "delete", "assign", "send")
_MAX_AT_ONCE = 12

# Two people act at once: one may not know yet what the other has done, and gets one of these errors.
_EXPECTED_ERRORS = {
    **{name: {"NOT_A_MEMBER", "INVALID_INPUT", "FORBIDDEN"} for name in ("send", "send_again", "send_without_key")},
    "edit": {"NOT_A_MEMBER", "INVALID_INPUT", "NOT_FOUND"},
    "recall": {"NOT_A_MEMBER", "RECALL_TIMEOUT", "NOT_FOUND"},
    "invite": {"NOT_A_MEMBER"},
    "remove": {"NOT_A_MEMBER", "FORBIDDEN", "INVALID_INPUT"},
    "leave": {"NOT_A_MEMBER", "OWNER_CANNOT_LEAVE"},
    "dissolve": {"NOT_A_MEMBER", "NOT_FOUND", "FORBIDDEN"},
    "type": {"NOT_A_MEMBER"},
}


class Actor:
    """The person who uses one device, and acts on what it displays."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.load = device.load
        self.rng = device.rng

    async def act(self, until: LoadEnd, pause: float, first: str) -> None:
        """Act until the load ends, with pauses of that many seconds on average."""
        left_out = set() if self.load.changes_rights else _DEPARTURES
        weights = {name: weight for name, weight in _WEIGHTS.items() if name not in left_out}
        if first in weights:
            await self.do(first)
        while await until.rest(self.rng, pause):
            await self.do(self.rng.choices(list(weights), list(weights.values()))[0])

    async def do(self, name: str) -> None:
        """Carry out one action by its name."""
        action: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
        try:
            await action()
        except RequestFailed as failed:
            if failed.code not in _EXPECTED_ERRORS.get(name, ()):
                self.load.tally.problem(f"{self.device.name}: {name}: {failed}")
        except GaveUp:
            # It happens for as long as one fault follows another.
            self.load.tally.notes[f"not answered within {self.load.patience:.0f} s: {name}"] += 1

    async def disturb(self, until: LoadEnd, pause: float) -> None:
        """Disturb the device at random, with pauses of that many seconds on average."""
        while await until.rest(self.rng, pause):
            await self._disturb_once(self.rng.choices(list(_DISTURBANCES), list(_DISTURBANCES.values()))[0])

    async def _disturb_once(self, disturbance: str) -> None:
        device, connection, reach = self.device, self.device.connection, self.load.reach
        if connection is None:
            return
        self.load.tally.notes[f"devices: {disturbance}"] += 1
        match disturbance:
            case "close":
                await connection.close(politely=True)
            case "drop":
                await connection.close(politely=False)
            case "stall":
                connection.stall(self.rng.uniform(0.3, 3.0) * reach)
            case "stall_long":
                connection.stall(self.rng.uniform(12.0, 30.0) * reach)
            case "go_offline":
                device.offline_until = time.monotonic() + self.rng.uniform(1.0, 20.0) * reach
                await connection.close(politely=self.rng.random() < 0.5)
            case "resubscribe":
                await device.resubscribe()
            case "reinstall":
                device.reinstall = True
                await connection.close(politely=True)

    # --- messages

    async def _send(self) -> None:
        await self.send(**self._new_message())

    async def _send_again(self) -> None:
        """Send with the key of a message that was answered, or that is being sent at this moment."""
        given = self._new_message()
        text = self.load.text(self.device.user)
        if self.rng.random() < 0.5:
            await self.send(text, **given)
            await self.send(text, **given)
        else:
            both = await asyncio.gather(self.send(text, **given), self.send(text, **given), return_exceptions=True)
            for outcome in both:
                if isinstance(outcome, BaseException):
                    raise outcome

    async def _send_without_key(self) -> None:
        """Send without a key, and so only once."""
        text = self.load.text(self.device.user)
        self.load.tried.add(text)
        await self.device.request_once("sendMessage", input=self._new_message() | {"content": text})

    async def _read_delivery(self) -> None:
        """Read who received and read an own message."""
        message = self._own_message()
        if message is not None:
            await self.device.request("delivery", id=message)

    def _new_message(self) -> Json:
        name = self._pick(gateways=False)
        given: Json = {"conversationId": name}
        if name is None or self.rng.random() < 0.2:
            peer = self.rng.choice([user for user in self.load.users if user != self.device.user])
            given = {"toUserId": peer}
            if self.rng.random() < 0.3:
                given["subBiz"] = self.rng.choice(SUB_BIZ)
            if self.rng.random() < 0.2:
                given["mentions"] = [peer]
        elif name in self.load.groups:
            group = self.load.groups[name]
            if self.rng.random() < 0.2:
                given["mentions"] = self.rng.sample(sorted(group.members), min(2, len(group.members)))
            if group.owner == self.device.user and self.rng.random() < 0.2:
                given["mentionAll"] = True
        messages = self.device.view.messages.get(str(given.get("conversationId")))
        if messages and self.rng.random() < 0.15:
            given["replyToId"] = self.rng.choice(list(messages.values())).id
        return given

    async def send(self, text: str = "", **given: Any) -> None:
        """Send a message, with the same key until it is answered."""
        load = self.load
        text = text or load.text(self.device.user)
        load.tried.add(text)
        began = time.time()
        answer = await self.device.request("sendMessage", input=given | {"content": text, "idempotencyKey": text})
        message = answer["message"]
        load.tally.notes["sends answered as replays"] += answer["replayed"]
        sent = SentMessage(
            message["id"], message["conversationId"], message["seq"], self.device.user, began, time.time()
        )
        load.sent.setdefault(text, sent)

    def _own_message(self) -> str | None:
        """Return one of the user's newest messages on the device that is not recalled."""
        name = self._pick(gateways=False)
        messages = self.device.view.messages.get(name, {}) if name else {}
        own = [
            messages[seq].id
            for seq in sorted(messages)[-30:]
            if (messages[seq].content or "").startswith(f"{self.device.user} says ")
        ]
        return self.rng.choice(own[-4:]) if own else None

    async def _edit(self) -> None:
        message = self._own_message()
        if message is not None:
            text = f"{self.load.text(self.device.user)}, edited"
            await self.device.request("editMessage", id=message, text=text)
            self.load.edited.add(message)

    async def _recall(self) -> None:
        message = self._own_message()
        if message is not None:
            await self.device.request("recallMessage", id=message)
            self.load.recalled.add(message)

    async def _type(self) -> None:
        name = self._pick(gateways=False)
        if name is not None:
            answer = await self.device.request("startTyping", id=name)
            self.load.tally.notes[f"startTyping answered {answer}"] += 1

    async def _renew(self) -> None:
        """Renew the token of the connection, which stays open."""
        connection = self.device.connection
        if connection is not None and not connection.stalled:
            try:
                await connection.request("renewAuth", {"token": token(self.device.user)})
                self.load.tally.operations["renewAuth"]["answered"] += 1
            except AnswerLost as lost:
                self.load.tally.operations["renewAuth"][f"lost ({lost})"] += 1

    # --- reading

    async def _read(self) -> None:
        """Read what an application reads that opens a conversation, a list, or itself."""
        device, name = self.device, self._pick(gateways=False)
        match self.rng.choice(("messages", "messages", "session", "list", "totals", "folders")):
            case "messages" if name is not None:
                await device.request("messages", id=name, last=20)
            case "session" if name is not None:
                await device.request("session", id=name)
            case "list":
                sub_biz = self.rng.choice((None, None, *SUB_BIZ))
                category = self.rng.choice(CATEGORIES) if sub_biz is None and self.rng.random() < 0.3 else None
                size = self.rng.choice((1, 20, 100))
                await device.request("sessions", first=size, subBiz=sub_biz, category=category)
            case "folders":
                await device.request("sessionCategories")
            case "totals":
                if await device.request("totalUnread") < 0:
                    self.load.tally.problem(f"{device.name}: totalUnread is negative")
            case _:
                await device.read_sessions()

    async def _sync(self) -> None:
        await self.device.mirror.catch_up(self.device, self.rng.choice((3, 30, 100)))

    # --- sessions

    def _pick(self, *, gateways: bool) -> str | None:
        """Return a conversation of the session list, half of the time one of the newest."""
        sessions = self.device.view.active_sessions
        names = [name for name in sessions if gateways or not name.startswith("b_")]
        names.sort(key=lambda name: -int(sessions[name]["activeTs"]))
        if not names:
            return None
        return self.rng.choice(names[:5] if self.rng.random() < 0.5 else names)

    async def _change(self, operation: str, *, gateways: bool = False, **arguments: Any) -> None:
        name = self._pick(gateways=gateways)
        if name is not None:
            await self.device.request(operation, id=name, **arguments)

    async def _mark_read(self) -> None:
        sessions = self.device.view.active_sessions
        unread = [name for name, session in sessions.items() if session["unreadCount"]]
        name = self.rng.choice(unread) if unread else self._pick(gateways=True)
        if name is not None:
            partly = self.rng.random() < 0.3
            seq = self.rng.randint(sessions[name]["readSeq"], sessions[name]["writeSeq"] + 1) if partly else None
            await self.device.request("markRead", id=name, seq=seq)

    async def _ack(self) -> None:
        name = self._pick(gateways=False)
        if name is not None:
            await self.device.request("ackDelivered", id=name, seq=self.device.view.sessions[name]["writeSeq"])

    async def _mute(self) -> None:
        muted, until = self.rng.random() < 0.6, None
        if muted and self.rng.random() < 0.5:
            at = time.time() + 3600
            if self.rng.random() < 0.5:
                at = time.time() + 2.0 + self.rng.uniform(0.0, 6.0) * self.load.reach
                self.load.last_mute_end = max(self.load.last_mute_end, at)
            until = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        try:
            await self._change("muteSession", gateways=True, muted=muted, until=until)
        except RequestFailed as failed:
            # The end came while the answer to the first try was lost.
            if until is None or failed.code != "INVALID_INPUT":
                raise

    async def _pin(self) -> None:
        priority = self.rng.choice([0, 0, 1, self.rng.randint(2, 1000)])
        await self._change("pinSession", gateways=True, priority=priority)

    async def _set_unread(self) -> None:
        await self._change("setUnread")

    async def _delete(self) -> None:
        await self._change("deleteSession", hard=self.rng.random() < 0.3)

    async def _assign(self) -> None:
        picked = sorted({name for name in (self._pick(gateways=False) for _ in range(3)) if name is not None})
        if picked:
            await self.device.request("assignCategory", ids=picked, category=self.rng.choice((None, *CATEGORIES)))

    async def _change_many(self) -> None:
        """Change the same sessions with many requests at once, at all servers."""
        await asyncio.gather(*(self.do(self.rng.choice(CHANGES)) for _ in range(_MAX_AT_ONCE)))

    # --- groups

    async def _create_group(self) -> None:
        others = [user for user in self.load.users if user != self.device.user]
        await self.create_group(self.rng.sample(others, min(len(others), self.rng.randint(2, 7))))

    async def create_group(self, others: list[str]) -> str:
        """Create a group of this person with others, and return its id."""
        full = self.rng.random() < 0.4
        name = self.load.text(self.device.user)
        given = {
            "name": name,
            "memberIds": others,
            "historyVisibility": "FULL" if full else "SINCE_JOIN",
            "idempotencyKey": name,
            "subBiz": self.rng.choice(SUB_BIZ) if self.rng.random() < 0.3 else None,
        }
        group: str = (await self.device.request("createGroup", input=given))["id"]
        self.load.groups[group] = GroupState(self.device.user, {self.device.user, *others})
        if full:
            self.load.full.add(group)
        return group

    def _own_group(self, *, owned: bool | None = None) -> tuple[str, GroupState] | None:
        """Return a group of the user, if it fits: one that they own, one that they do not own, or any one."""
        mine = [group for group, state in self.load.groups.items() if self.device.user in state.members]
        if not mine:
            return None
        group = self.rng.choice(mine)
        state = self.load.groups[group]
        return (group, state) if owned in (None, state.owner == self.device.user) else None

    async def _invite(self) -> None:
        if found := self._own_group():
            group, state = found
            users = self.rng.sample(self.load.users, min(2, len(self.load.users)))
            await self.device.request("inviteMembers", id=group, users=users)
            state.members.update(users)

    async def _remove(self) -> None:
        if found := self._own_group(owned=True):
            group, state = found
            user = self.rng.choice(sorted(state.members - {self.device.user}) or [self.device.user])
            state.members.discard(user)
            await self.device.request("removeMember", id=group, user=user)

    async def _leave(self) -> None:
        if found := self._own_group(owned=False):
            group, state = found
            state.members.discard(self.device.user)
            await self.device.request("leaveGroup", id=group)

    async def _dissolve(self) -> None:
        if found := self._own_group(owned=True):
            group, state = found
            del self.load.groups[group]
            state.members.clear()
            await self.device.request("deleteConversation", id=group)
