"""The load of the soak: devices that do everything a session can go through, many of them at the same user's at once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from store.base.ids import UserId, private_id
from tests.invariants.soak_client import Client, Failed, Json, Tally
from tests.invariants.soak_ledger import Ledger, Memory
from tests.processes import ServerProcess

SUB_BIZ = ("shop", "help")
CATEGORIES = ("work", "family", "later")

# What a device does, and how often of the sum of all.
_WEIGHTS = {
    "send_private": 16, "send_group": 16, "send_twice": 2, "mark_read": 14, "mute": 6, "pin": 6, "set_unread": 5,
    "delete": 5, "assign": 6, "create_group": 1, "invite": 2, "read_one": 8, "read_list": 4, "sync": 6,
    "read_total": 1, "read_categories": 2,
}  # fmt: skip
_MEMBERSHIPS = ("create_group", "invite")
_AT_ONCE = ("mark_read", "mute", "pin", "set_unread", "delete", "assign", "send_private")


@dataclass
class World:
    """What the devices know together."""

    tally: Tally
    ledger: Ledger
    users: list[str]
    servers: Sequence[ServerProcess]
    weights: dict[str, int] = field(default_factory=lambda: dict(_WEIGHTS))
    known: dict[str, list[str]] = field(default_factory=dict)
    """Conversations each user has a session of, gateways included."""
    groups: dict[str, set[str]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    sub_biz: dict[str, str | None] = field(default_factory=dict)
    last_until: float = 0.0
    """When the last of the mutes ends that end by themselves soon."""
    _texts: int = 0

    def keep_memberships(self) -> None:
        """Nobody joins a group from now on."""
        for name in _MEMBERSHIPS:
            self.weights[name] = 0

    def learn(self, user: str, conversation: str, sub_biz: str | None) -> None:
        """A user has a session of a conversation."""
        known = self.known.setdefault(user, [])
        for name in (conversation, f"b_{sub_biz}") if sub_biz else (conversation,):
            if name not in known:
                known.append(name)

    def text(self, sender: str) -> str:
        """One that no other message has."""
        self._texts += 1
        return f"{sender} says {self._texts}"


class Device:
    """One of a user's devices. It asks one thing after another, and remembers what it was shown."""

    def __init__(self, world: World, user: str, name: str, seed: int) -> None:
        self.world = world
        self.user = user
        self.memory = Memory(f"{user}/{name}")
        self.rng = random.Random(seed)
        self.client = Client(world.tally, self.rng.choice(world.servers), user)
        self.mirror: dict[str, Json] = {}
        """What it knows from syncSessions alone."""
        self._cursor: str | None = None

    async def run(self, until: float, pause: float) -> None:
        """Does this and that until a time of the monotonic clock, with pauses of so many seconds on average."""
        names = list(self.world.weights)
        weights = [self.world.weights[name] for name in names]
        while time.monotonic() < until:
            await self.do(self.rng.choices(names, weights)[0])
            if pause:
                await asyncio.sleep(self.rng.expovariate(1 / pause))

    async def do(self, name: str) -> None:
        """One thing. What the API refuses is counted."""
        operation: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
        try:
            await operation()
        except Failed as failed:
            if failed.code != "UNAVAILABLE":
                self.world.tally.problem(f"{self.memory.name}: {failed}")

    # --- messages

    async def _send_private(self) -> None:
        peer = self.rng.choice([user for user in self.world.users if user != self.user])
        sub_biz = self.rng.choice(SUB_BIZ) if self.rng.random() < 0.3 else None
        conversation = private_id(UserId(self.user), UserId(peer), sub_biz)
        given: Json = {"toUserId": peer}
        if sub_biz:
            given["subBiz"] = sub_biz
        if conversation in self.world.known.get(self.user, ()) and self.rng.random() < 0.5:
            given = {"conversationId": conversation}
        if self.rng.random() < 0.2:
            given["mentions"] = [peer]
        await self._send(conversation, **given)
        for user in (self.user, peer):
            self.world.learn(user, conversation, sub_biz)

    async def _send_group(self) -> None:
        mine = [group for group, members in self.world.groups.items() if self.user in members]
        if not mine:
            return
        group = self.rng.choice(mine)
        more: Json = {}
        if self.rng.random() < 0.3:
            more["mentions"] = self.rng.sample(sorted(self.world.groups[group]), 2)
        if self.world.owners[group] == self.user and self.rng.random() < 0.4:
            more["mentionAll"] = True
        await self._send(group, conversationId=group, **more)

    async def _send_twice(self) -> None:
        """The same message at once, as a client does that is not sure whether it was sent."""
        peer = self.rng.choice([user for user in self.world.users if user != self.user])
        conversation = private_id(UserId(self.user), UserId(peer))
        text = self.world.text(self.user)

        async def send() -> bool:
            return await self._send(conversation, text=text, key=text, toUserId=peer, alone=False)

        if self.world.ledger.lasting:
            outcomes: Sequence[bool | BaseException] = await asyncio.gather(send(), send(), return_exceptions=True)
        else:
            # Of two at once the second may find the claim of the first lost, and its message not stored yet.
            outcomes = [await send(), await send()]
        replays = 0
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            replays += outcome
        if replays != 1:
            self.world.tally.problem(f"{text}: of two sends with one key, {replays} were replays")
        for user in (self.user, peer):
            self.world.learn(user, conversation, None)

    async def _send(
        self, conversation: str, *, text: str = "", key: str | None = None, alone: bool = True, **given: Any
    ) -> bool:
        """Whether the answer was a replay."""
        text = text or self.world.text(self.user)
        ledger = self.world.ledger
        try:
            sent = await self.client.ask("sendMessage", input=given | {"content": text, "idempotencyKey": key})
        except Failed:
            ledger.unanswered.add(text)
            ledger.doubtful.add((self.user, conversation))
            raise
        ledger.message(text, conversation, sent["message"])
        ledger.shown(self.memory if alone else None, self.user, sent["session"], changed=not sent["replayed"])
        return bool(sent["replayed"])

    # --- sessions

    def _pick(self, *, gateways: bool = True) -> str | None:
        """A conversation of the user's, half of the time one of the few that all devices like."""
        known = [c for c in self.world.known.get(self.user, ()) if gateways or not c.startswith("b_")]
        if not known:
            return None
        return self.rng.choice(known[:4] if self.rng.random() < 0.5 else known)

    async def _change(self, kind: str, conversation: str | None, *, changes: bool = False, **arguments: Any) -> None:
        if conversation is None:
            return
        try:
            session = await self.client.ask(kind, id=conversation, **arguments)
        except Failed:
            self.world.ledger.doubtful.add((self.user, conversation))
            raise
        self.world.ledger.shown(self.memory, self.user, session, changed=changes)

    async def _mark_read(self) -> None:
        conversation = self._pick()
        seq = None
        if conversation is not None and self.rng.random() < 0.4:
            shown = self.memory.shown.get(conversation)
            seq = self.rng.randint(0, shown["writeSeq"] + 2) if shown else 1
        await self._change("markRead", conversation, seq=seq)

    async def _mute(self) -> None:
        muted = self.rng.random() < 0.6
        until = None
        if muted and self.rng.random() < 0.4:
            at = time.time() + (self.rng.uniform(3.0, 4.0) if self.rng.random() < 0.5 else 3600)
            if at < time.time() + 60:
                self.world.last_until = max(self.world.last_until, at)
            until = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        await self._change("muteSession", self._pick(), muted=muted, until=until)

    async def _pin(self) -> None:
        await self._change("pinSession", self._pick(), priority=self.rng.choice([0, 0, 1, self.rng.randint(2, 1000)]))

    async def _set_unread(self) -> None:
        await self._change("setUnread", self._pick(gateways=False))

    async def _delete(self) -> None:
        await self._change("deleteSession", self._pick(gateways=False), hard=self.rng.random() < 0.3)

    async def _assign(self) -> None:
        picked = {self._pick(gateways=False) for _ in range(self.rng.randint(1, 4))} - {None}
        if not picked:
            return
        ids = sorted(str(conversation) for conversation in picked)
        # A folder that nobody used before: certainly a change.
        new = self.rng.random() < 0.5
        category = self.world.text("folder") if new else self.rng.choice([None, *CATEGORIES])
        try:
            sessions = await self.client.ask("assignCategory", ids=ids, category=category)
        except Failed:
            self.world.ledger.doubtful.update((self.user, conversation) for conversation in ids)
            raise
        if [session["conversation"]["id"] for session in sessions] != ids:
            self.world.tally.problem(f"{self.memory.name}: asked to assign {ids}, was answered other sessions")
        for session in sorted(sessions, key=lambda s: s["activeTs"]):
            self.world.ledger.shown(self.memory, self.user, session, changed=new)

    # --- groups

    async def _create_group(self) -> None:
        sub_biz = self.rng.choice(SUB_BIZ) if self.rng.random() < 0.3 else None
        others = self.rng.sample([user for user in self.world.users if user != self.user], self.rng.randint(2, 9))
        await self.create_group(others, sub_biz)

    async def create_group(self, others: Sequence[str], sub_biz: str | None) -> None:
        """Makes a group of this user's."""
        given = {"name": self.world.text(self.user), "memberIds": list(others), "subBiz": sub_biz}
        group = (await self.client.ask("createGroup", input=given))["id"]
        self.world.owners[group], self.world.sub_biz[group] = self.user, sub_biz
        self.world.groups[group] = {self.user, *others}
        for user in self.world.groups[group]:
            self.world.learn(user, group, sub_biz)

    async def _invite(self) -> None:
        mine = [group for group, members in self.world.groups.items() if self.user in members]
        if not mine:
            return
        group = self.rng.choice(mine)
        users = self.rng.sample(self.world.users, 2)
        await self.client.ask("inviteMembers", id=group, users=users)
        for user in users:
            self.world.groups[group].add(user)
            self.world.learn(user, group, self.world.sub_biz[group])

    # --- reading

    async def _read_one(self) -> None:
        conversation = self._pick()
        if conversation is None:
            return
        session = await self.client.ask("session", id=conversation)
        if session is None:
            self.world.tally.problem(f"{self.memory.name}: has no session of {conversation}")
        else:
            self.world.ledger.shown(self.memory, self.user, session)

    async def _read_list(self) -> None:
        sub_biz = self.rng.choice(SUB_BIZ) if self.rng.random() < 0.2 else None
        category = self.rng.choice(CATEGORIES) if self.rng.random() < 0.2 else None
        page = await self.client.ask("sessions", first=self.rng.choice([1, 20, 100]), subBiz=sub_biz, category=category)
        for edge in page["edges"]:
            self.world.ledger.shown(self.memory, self.user, edge["node"])

    async def _sync(self) -> None:
        await self.catch_up(self.rng.choice([3, 30, 100]))

    async def catch_up(self, size: int = 100) -> None:
        """Follows syncSessions to its end."""
        more = True
        while more:
            delta = await self.client.ask("syncSessions", since=self._cursor, first=size)
            if delta["reset"]:
                self.mirror.clear()
            order = [session["activeTs"] for session in delta["sessions"]]
            if order != sorted(set(order)):
                self.world.tally.problem(f"{self.memory.name}: a delta out of order: {order}")
            for session in delta["sessions"]:
                self.world.ledger.shown(self.memory, self.user, session)
                self.mirror[session["conversation"]["id"]] = session
            self._cursor, more = delta["cursor"], delta["hasMore"]

    async def _read_total(self) -> None:
        if await self.client.ask("totalUnread") < 0:
            self.world.tally.problem(f"{self.memory.name}: a negative total")

    async def _read_categories(self) -> None:
        await self.client.ask("sessionCategories")


async def crowd_one_user(world: World, rng: random.Random, devices: int = 20, rounds: int = 5) -> None:
    """Many devices of one user, on all servers, change the same sessions at once."""
    user = rng.choice(world.users)
    crowd = [Device(world, user, f"crowd{number}", rng.getrandbits(32)) for number in range(devices)]

    async def act(device: Device) -> None:
        for _ in range(rounds):
            await device.do(device.rng.choice([name for name in _AT_ONCE if world.weights[name]]))

    try:
        await asyncio.gather(*(act(device) for device in crowd))
    finally:
        await asyncio.gather(*(device.client.close() for device in crowd))
