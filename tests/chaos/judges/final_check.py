"""Compares, at the end of a run, each device's copy and MongoDB's rows with what the API shows a fresh client."""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from math import inf

from store.base.ids import parse_private
from tests.chaos.judges.counted_state import CountedUser, compare_with_api
from tests.chaos.judges.history import Json
from tests.chaos.load.device import Device
from tests.chaos.load.event_chain import EventChain
from tests.chaos.load.load_state import LoadState, SentMessage
from tests.chaos.load.requester import Requester
from tests.chaos.load.view import Text, text_of

RESET_SECONDS = 2.0
"""A message that is sent this soon after a reset is missing on a device in about one of 1,000 cases."""

Intervals = dict[str, list[tuple[int, int]]]
"""First and last seq of each membership interval, by `conversation user`; -1 for an open end."""

_INEXACT = ("peerReadSeq", "peerDeliveredSeq", "writeTs")


@dataclass
class FreshState:
    """The sessions that a client without a cursor is shown."""

    sessions: dict[str, Json]
    total_unread: int


async def read_fresh(requester: Requester) -> FreshState:
    """Read a user's sessions without a cursor, from any server."""
    sessions, last = await requester.read_sessions()
    return FreshState({session["conversation"]["id"]: session for session in sessions}, last["totalUnread"])


async def read_history(requester: Requester, name: str) -> list[Json] | None:
    """Return all that a user may read of a conversation, in order; None if there are none."""
    found: list[Json] = []
    after = None
    while True:
        page = await requester.request("messages", id=name, first=100, after=after)
        if page is None:
            return None
        found += [edge["node"] for edge in page["edges"]]
        if not page["pageInfo"]["hasNextPage"]:
            return found
        after = page["pageInfo"]["endCursor"]


@dataclass(frozen=True)
class StoredState:
    """Reads MongoDB and the outboxes, for the comparison."""

    intervals: Callable[[], Intervals]
    describe: Callable[[str, str], str]
    """Returns what MongoDB has of a user and a conversation, as text for a report."""
    count_sessions: Callable[[], dict[str, CountedUser]]
    count_unfinished: Callable[[], Awaitable[int]]
    """Returns the number of messages in the outboxes."""


class FinalCheck:
    """The checks after the load."""

    def __init__(self, load: LoadState, devices: list[Device], stored: StoredState) -> None:
        self.compared = 0
        self.intervals: Intervals = {}
        self._fresh: dict[str, FreshState] = {}
        self._load = load
        self._stored = stored
        self._by_user: defaultdict[str, list[Device]] = defaultdict(list)
        for device in devices:
            self._by_user[device.user].append(device)

    async def settle(self, patience: float) -> float:
        """Wait until every device agrees with a fresh client, and both with MongoDB, all at one time.

        The outboxes have to be empty by then: the messages of a dead server are delivered seconds later. A difference
        that is left after `patience` seconds is a problem. Returns the seconds it took.
        """
        began = time.monotonic()
        wrong: dict[str, list[str]] = {}
        while True:
            unfinished = await self._stored.count_unfinished()
            self.intervals = self._stored.intervals()
            counted = self._stored.count_sessions()
            users = [user for user in self._by_user if wrong.get(user)] or list(self._by_user)
            outcomes = await asyncio.gather(*(self._compare(user, counted[user]) for user in users))
            wrong |= dict(zip(users, outcomes, strict=True))
            took = time.monotonic() - began
            if not unfinished and len(users) == len(self._by_user) and not any(wrong.values()):
                return took
            if took > patience:
                self._report(wrong, took)
                if unfinished:
                    self._load.tally.problem(f"after {took:.0f} s of quiet: {unfinished} entries in outboxes")
                return took
            await asyncio.sleep(0.2)

    def _report(self, wrong: dict[str, list[str]], took: float) -> None:
        for user, sentences in wrong.items():
            named = {found[0] for sentence in sentences if (found := re.search(r"\b[gp]_[\w~]+", sentence))}
            rows = [f"{name} in MongoDB: {self._stored.describe(user, name)}" for name in sorted(named)]
            for sentence in [*sentences, *rows]:
                self._load.tally.problem(f"after {took:.0f} s of quiet: {sentence}")

    async def _compare(self, user: str, counted: CountedUser) -> list[str]:
        devices = self._by_user[user]
        fresh = self._fresh[user] = await read_fresh(devices[0])
        unsettled = [f"{d.name}: {d.describe_unsettled(fresh.sessions)}" for d in devices if d.is_unsettled]
        if unsettled:
            return unsettled
        wrong = []
        own = {key.split(" ")[0]: intervals for key, intervals in self.intervals.items() if key.split(" ")[1] == user}
        former = {name for name, intervals in own.items() if intervals[-1][1] != -1}
        for device in devices:
            different = device.view.differences(fresh.sessions, fresh.total_unread, unrevised=former)
            wrong += [f"{device.name}: {sentence}" for sentence in different]
        return (
            wrong or await self._compare_messages(user, fresh) or await self._compare_synchronised(user, fresh, counted)
        )

    async def _compare_messages(self, user: str, fresh: FreshState) -> list[str]:
        devices, wrong = self._by_user[user], []
        names = {name for device in devices for name in device.view.messages} | fresh.sessions.keys()
        for name in sorted(name for name in names if not name.startswith("b_")):
            nodes = await read_history(devices[0], name)
            history = None if nodes is None else {node["seq"]: text_of(node) for node in nodes}
            intervals = self.intervals.get(f"{name} {user}", [(0, -1)])
            since = intervals[-1][0] if intervals[-1][1] == -1 else inf
            for device in devices:
                wrong += [f"{device.name}: {s}" for s in device.view.wrong_messages(name, history, since)]
                self.compared += len(device.view.messages.get(name, ()))
            wrong += self._missing_own(user, name, history)
        return wrong

    def _missing_own(self, user: str, name: str, history: dict[int, Text] | None) -> list[str]:
        """Return the acknowledged messages of a user that are not in their own history."""
        found = {text.id for text in (history or {}).values()}
        sent = [s for s in self._load.sent.values() if s.conversation == name and s.sender == user]
        return [f"{user}: acknowledged, and not in the own history: {s}" for s in sent if s.id not in found]

    async def _compare_synchronised(self, user: str, fresh: FreshState, counted: CountedUser) -> list[str]:
        """Compare the copies by syncSessions, and what counting MongoDB's rows gives."""
        wrong = await compare_with_api(self._by_user[user][0], counted)
        for device in self._by_user[user]:
            await device.mirror.catch_up(device)
            wrong += [f"{device.name}: {sentence}" for sentence in device.mirror.differences(fresh.sessions)]
        return wrong

    async def note_fresh(self) -> None:
        """Note in the history everything that each user is shown at the end."""
        await asyncio.gather(*(self._note_fresh_of(user) for user in self._by_user))

    async def _note_fresh_of(self, user: str) -> None:
        device = self._by_user[user][0]
        fresh = await read_fresh(device)
        names = fresh.sessions.keys() | {name for d in self._by_user[user] for name in d.view.messages}
        histories = {name: await read_history(device, name) for name in sorted(names) if not name.startswith("b_")}
        self._load.history.note(
            "fresh", user=user, sessions=fresh.sessions, total=fresh.total_unread, histories=histories
        )

    def check_events(self) -> int:
        """Check that every acknowledged message came to each device of each member whose chain began before the send.

        Returns:
            The number of events that were expected.
        """
        members: defaultdict[str, dict[str, list[tuple[int, int]]]] = defaultdict(dict)
        for key, intervals in self.intervals.items():
            conversation, user = key.split(" ")
            members[conversation][user] = intervals
        expected: defaultdict[str, list[SentMessage]] = defaultdict(list)
        for sent in self._load.sent.values():
            for user in self._recipients(sent, members[sent.conversation]):
                expected[user].append(sent)
        count = 0
        for user, messages in expected.items():
            for device in self._by_user.get(user, ()):
                if device.is_unsettled:
                    # That is a problem already.
                    continue
                count += self._look_for(device.chain, messages)
                if device.followed is not None:
                    one = [message for message in messages if message.conversation == device.followed]
                    count += self._look_for(device.one_chain, one)
        return count

    def _look_for(self, chain: EventChain, messages: list[SentMessage]) -> int:
        expected = {sent.id: sent for sent in messages if sent.began > chain.began}
        for id in chain.missing(expected):
            if expected[id].began < chain.began + RESET_SECONDS:
                # A known gap: rare, not understood yet, and not reproducible at will.
                self._load.tally.notes["missing, sent right after a reset"] += 1
                continue
            self._load.tally.problem(f"{chain.name} began at {chain.began:.3f} and never received {expected[id]}")
        return len(expected)

    def _recipients(self, sent: SentMessage, members: dict[str, list[tuple[int, int]]]) -> list[str]:
        people = parse_private(sent.conversation)
        if people is not None:
            return list(people[:2])
        return [
            user
            for user, intervals in members.items()
            if any(first <= sent.seq and (last == -1 or sent.seq <= last) for first, last in intervals)
        ]

    async def check_after_cache_loss(self, *, exact: bool) -> None:
        """Check that an empty cache changes nothing.

        Args:
            exact: False if servers died or their clocks differ. Receipts that a dead server had not passed on, and the
                writeTs of a message that two servers committed, may then be further.
        """
        grown = () if exact else _INEXACT
        await asyncio.gather(*(self._check_cold_of(user, warm, grown) for user, warm in self._fresh.items()))

    async def _check_cold_of(self, user: str, warm: FreshState, grown: Collection[str]) -> None:
        cold = await read_fresh(self._by_user[user][0])
        for name in warm.sessions.keys() | cold.sessions.keys():
            before, after = warm.sessions.get(name), cold.sessions.get(name)
            described = f"{user} {name}: warm and cold differ"
            if before is None or after is None:
                rows = self._stored.describe(user, name)
                self._load.tally.problem(f"{described}: warm {before}, cold {after}; {rows}")
                continue
            fields = {field for field in before if before[field] != after[field]}
            if after["activeTs"] > before["activeTs"]:
                fields.discard("activeTs")
            late = {field for field in fields if field in grown and after[field] > before[field]}
            self._load.tally.notes["sessions that are further once the cache is empty"] += bool(late)
            if fields - late:
                different = {field: (before[field], after[field]) for field in fields - late}
                self._load.tally.problem(f"{described}: {different}; {self._stored.describe(user, name)}")
