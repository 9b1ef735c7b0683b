"""The end of the torture: every device's state, built from events, against what the server shows a fresh client."""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf

from tests.chaos.chain import Chain
from tests.chaos.device import Device
from tests.chaos.history import Json
from tests.chaos.view import Text, text_of
from tests.chaos.world import Sent, World

RESET_SECONDS = 2.0
"""A message sent so soon after a reset that a lost cache led to was not told to a device, in about one of a thousand cases."""

Intervals = dict[str, list[tuple[int, int]]]
"""The stretches of seq of memberships, by `conversation user`; -1 for no end."""

_GROWN = ("peerReadSeq", "peerDeliveredSeq")


@dataclass
class Fresh:
    """What a user is shown who asks without a cursor."""

    sessions: dict[str, Json]
    total_unread: int


async def read_fresh(device: Device) -> Fresh:
    """By one of the user's devices, from any server."""
    delta = await device.ask("syncSessions", since=None)
    found: list[Json] = delta["sessions"]
    while delta["hasMore"]:
        delta = await device.ask("syncSessions", since=delta["cursor"])
        found += delta["sessions"]
    return Fresh({session["conversation"]["id"]: session for session in found}, delta["totalUnread"])


async def read_history(device: Device, name: str) -> list[Json] | None:
    """All that a user may read of a conversation, in order."""
    found: list[Json] = []
    after = None
    while True:
        page = await device.ask("messages", id=name, first=100, after=after)
        if page is None:
            return None
        found += [edge["node"] for edge in page["edges"]]
        if not page["pageInfo"]["hasNextPage"]:
            return found
        after = page["pageInfo"]["endCursor"]


class Ending:
    """The quiet moment after the load."""

    def __init__(
        self,
        world: World,
        devices: list[Device],
        read_intervals: Callable[[], Intervals],
        describe: Callable[[str, str], str],
        count_unfinished: Callable[[], Awaitable[int]],
    ) -> None:
        """read_intervals: all memberships, from MongoDB; describe: what that holds of a user and a conversation;
        count_unfinished: the messages in outboxes."""
        self.warm: dict[str, Fresh] = {}
        self.compared = 0
        self.intervals: Intervals = {}
        self._world = world
        self._read_intervals = read_intervals
        self._describe = describe
        self._count_unfinished = count_unfinished
        self._by_user: defaultdict[str, list[Device]] = defaultdict(list)
        for device in devices:
            self._by_user[device.user].append(device)

    async def settle(self, patience: float) -> float:
        """Until every device shows what a fresh client is shown, for so many seconds at most. Answers how long it took; what
        differs then is a problem.

        All of them at one time, and with nothing in the outboxes: what a dead server left there is told seconds later.
        """
        began = time.monotonic()
        wrong: dict[str, list[str]] = {}
        while True:
            unfinished = await self._count_unfinished()
            self.intervals = self._read_intervals()
            checked = [user for user in self._by_user if wrong.get(user)] or list(self._by_user)
            outcomes = await asyncio.gather(*(self._compare(user) for user in checked))
            wrong |= dict(zip(checked, outcomes, strict=True))
            took = time.monotonic() - began
            if not unfinished and len(checked) == len(self._by_user) and not any(wrong.values()):
                return took
            if took > patience:
                self._report(wrong, took)
                if unfinished:
                    self._world.tally.problem(f"after {took:.0f} s of quiet: {unfinished} entries in outboxes")
                return took
            await asyncio.sleep(0.5)

    def _report(self, wrong: dict[str, list[str]], took: float) -> None:
        for user, sentences in wrong.items():
            named = {found[0] for sentence in sentences if (found := re.search(r"\b[gp]_\w+", sentence))}
            held = [f"{name} in MongoDB: {self._describe(user, name)}" for name in sorted(named)]
            for sentence in [*sentences, *held]:
                self._world.tally.problem(f"after {took:.0f} s of quiet: {sentence}")

    async def _compare(self, user: str) -> list[str]:
        devices = self._by_user[user]
        fresh = self.warm[user] = await read_fresh(devices[0])
        unsettled = [f"{device.name}: {device.unsettled(fresh.sessions)}" for device in devices if device.is_unsettled]
        if unsettled:
            return unsettled
        wrong = []
        own = {key.split(" ")[0]: stretches for key, stretches in self.intervals.items() if key.split(" ")[1] == user}
        former = {name for name, stretches in own.items() if stretches[-1][1] != -1}
        for device in devices:
            different = device.view.differences(fresh.sessions, fresh.total_unread, former)
            wrong += [f"{device.name}: {sentence}" for sentence in different]
        if wrong:
            return wrong
        names = {name for device in devices for name in device.view.messages} | fresh.sessions.keys()
        for name in sorted(names):
            nodes = await read_history(devices[0], name)
            history = None if nodes is None else {node["seq"]: text_of(node) for node in nodes}
            stretches = self.intervals.get(f"{name} {user}", [(0, -1)])
            since = stretches[-1][0] if stretches[-1][1] == -1 else inf
            for device in devices:
                wrong += [f"{device.name}: {s}" for s in device.view.wrong_messages(name, history, since)]
                self.compared += len(device.view.messages.get(name, ()))
            wrong += self._missing(user, name, history)
        return wrong

    def _missing(self, user: str, name: str, history: dict[int, Text] | None) -> list[str]:
        """What was acknowledged to the user itself is in what the user may read, as long as they may read at all."""
        held = {text.id for text in (history or {}).values()}
        sent = [s for s in self._world.sent.values() if s.conversation == name and s.sender == user]
        return [f"{user}: acknowledged, and not in one's own history: {s}" for s in sent if s.id not in held]

    async def note_fresh(self) -> None:
        """What each user is shown now goes into the history of the run, whole."""
        await asyncio.gather(*(self._note_fresh_of(user) for user in self._by_user))

    async def _note_fresh_of(self, user: str) -> None:
        device = self._by_user[user][0]
        fresh = await read_fresh(device)
        names = fresh.sessions.keys() | {name for d in self._by_user[user] for name in d.view.messages}
        histories = {name: await read_history(device, name) for name in sorted(names)}
        self._world.history.note(
            "fresh", user=user, sessions=fresh.sessions, total=fresh.total_unread, histories=histories
        )

    def check_told(self) -> int:
        """Every acknowledged message was told to each device of each member that had begun before it was sent. Answers how
        many tellings that were."""
        members: defaultdict[str, dict[str, list[tuple[int, int]]]] = defaultdict(dict)
        for key, stretches in self.intervals.items():
            conversation, user = key.split(" ")
            members[conversation][user] = stretches
        wanted: defaultdict[str, list[Sent]] = defaultdict(list)
        for sent in self._world.sent.values():
            for user in self._recipients(sent, members[sent.conversation]):
                wanted[user].append(sent)
        count = 0
        for user, messages in wanted.items():
            for device in self._by_user.get(user, ()):
                if device.is_unsettled:
                    # That is a problem already.
                    continue
                count += self._look_for(device.chain, messages)
                if device.room is not None:
                    count += self._look_for(device.room_chain, [m for m in messages if m.conversation == device.room])
        return count

    def _look_for(self, chain: Chain, messages: list[Sent]) -> int:
        due = {sent.id: sent for sent in messages if sent.began > chain.began}
        for id in chain.missing(due):
            if due[id].began < chain.began + RESET_SECONDS:
                # Known, and not understood yet: it is rare, and nothing makes it happen at will.
                self._world.tally.notes["not told, sent right after a reset"] += 1
                continue
            self._world.tally.problem(f"{chain.name}, that began at {chain.began:.3f}, was never told of {due[id]}")
        return len(due)

    def _recipients(self, sent: Sent, members: dict[str, list[tuple[int, int]]]) -> list[str]:
        if sent.conversation.startswith("p_"):
            return sent.conversation[2:].split("_")
        return [
            user
            for user, stretches in members.items()
            if any(first <= sent.seq and (last == -1 or sent.seq <= last) for first, last in stretches)
        ]

    async def check_cold(self) -> None:
        """After the cache was lost, all is shown as before. What had been read by others as a server died, and the senders
        were not told of, is told then: that may be further."""
        for user, warm in self.warm.items():
            cold = await read_fresh(self._by_user[user][0])
            for name in warm.sessions.keys() | cold.sessions.keys():
                before, after = warm.sessions.get(name), cold.sessions.get(name)
                if before is None or after is None:
                    self._world.tally.problem(
                        f"{user} {name}: warm {before}, cold {after}; {self._describe(user, name)}"
                    )
                    continue
                names = {field for field in before if before[field] != after[field]} - {"activeTs"}
                late = {field for field in names if field in _GROWN and after[field] > before[field]}
                self._world.tally.notes["receipts that a dead server had not told"] += bool(late)
                if names - late:
                    shown = {field: (before[field], after[field]) for field in names - late}
                    self._world.tally.problem(
                        f"{user} {name}: warm and cold differ: {shown}; {self._describe(user, name)}"
                    )
