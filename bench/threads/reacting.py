"""Many people react to one message within seconds, while others look at it.

`python -m bench.threads.reacting` starts MongoDB, Redis and a server. 1,000 members look at a group and at a channel
with channelEvents. 200 of them react to a message of each place within 3 s, with one of three emoji, over HTTP. The
places take turns with a group and a channel of the same members that nobody looks at. The clients are in processes of
their own, which are not counted. The run fails if a watcher gets more events than one for each 500 ms, or if a count
differs anywhere: in the watchers' last events, in the message, in `reactors`, or in the rows of MongoDB.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from collections import Counter
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from bench.load_process import LoadProcess
from bench.selections import CREATE_GROUP, SEND_MESSAGE
from bench.threads.stage import Stage, Turns, open_stage
from bench.workspace_data import BenchWorkspace, insert_workspace
from store.mongo.collections import REACTIONS

NAME = "bench_reacting"
EMOJI = ("👍", "🎉", "❤️")
_INTERVAL_SECONDS = 0.5
_AFTERMATH_SECONDS = 0.3

WATCH = """subscription { channelEvents(channels: [{id: "%s"}]) { __typename
    ... on ChannelReactions { conversationId messageId rev reactions {
        emoji count viewerReacted users { id displayName } } }
    ... on ChannelCaughtUp { conversationId rev reset } } }"""
ADD = "mutation ($id: ID!, $emoji: String!) { addReaction(messageId: $id, emoji: $emoji) { id } }"
MESSAGE = "query ($id: ID!) { message(id: $id) { reactions { emoji count } } }"
REACTORS = """query ($id: ID!, $emoji: String!, $after: String) {
    reactors(messageId: $id, emoji: $emoji, first: 100, after: $after) {
        pageInfo { hasNextPage endCursor } edges { node { id } } } }"""


@dataclass(frozen=True, slots=True)
class Place:
    """A conversation with members who may look at it."""

    name: str
    id: str
    is_looked_at: bool


class Bench:
    """Places with the same members."""

    def __init__(
        self, stage: Stage, workspace: BenchWorkspace, watchers: LoadProcess, given: argparse.Namespace
    ) -> None:
        self._stage = stage
        self._workspace = workspace
        self._watchers = watchers
        self._given = given
        self._places: list[Place] = []
        self._turns = Turns()
        self._events: dict[str, list[str]] = {}
        self._rows = 0
        """Rows of reactions so far."""

    async def prepare(self) -> None:
        """Create the groups, and let everybody look."""
        owner, *members = self._workspace.members
        made = {"name": "Everybody", "memberIds": members}
        groups = [(await self._stage.ask(owner, CREATE_GROUP, input=made))["id"] for _ in range(2)]
        for kind, watched, other in (
            ("group", *groups),
            ("channel", self._workspace.large, self._workspace.opened),
        ):
            self._places += [Place(kind, watched, True), Place(f"{kind}, nobody looks", other, False)]
        opened = await self._watchers.ask(
            "open",
            port=self._stage.server.port,
            users=members,
            subscriptions=[WATCH % place.id for place in self._places if place.is_looked_at],
        )
        print(
            f"{len(members):,} look at a group and a channel of {len(members) + 1:,} after {opened['seconds']:.0f} s",
            flush=True,
        )
        # Everyone who reacts has a connection, and the server has seen them.
        for user in self._reacting():
            await self._stage.ask(user, "{ totalUnread }")

    def _reacting(self) -> list[str]:
        return list(self._workspace.members[1 : self._given.reacting + 1])

    async def run(self) -> None:
        for place in self._places:
            await self._turn(place, self._given.reacting // 10, self._given.seconds / 10, is_counted=False)
        await self._stage.settle()
        for _ in range(self._given.turns):
            for place in self._places:
                await self._turn(place, self._given.reacting, self._given.seconds)
        self._turns.print_table(f"{self._given.reacting} reactions in {self._given.seconds} s: each")
        for name, events in self._events.items():
            print(f"{name}: watchers by number of events, in each turn: {events}")

    async def _turn(self, place: Place, reacting: int, seconds: float, *, is_counted: bool = True) -> None:
        sent = await self._stage.ask(self._workspace.members[0], SEND_MESSAGE, id=place.id, text="Who takes part?")
        await asyncio.sleep(1)
        message, chosen = sent["message"]["id"], dict(zip(self._reacting()[:reacting], cycle(EMOJI), strict=False))
        found: dict[str, Any] = {}
        took = 0.0

        async def act() -> None:
            nonlocal took
            took = await self._react(message, chosen, seconds)
            if place.is_looked_at:
                found.update(await self._watchers.ask("report", total=len(chosen)))

        spent = await self._stage.measure(act, _AFTERMATH_SECONDS)
        await self._check(message, chosen, found, took)
        if is_counted:
            self._turns.add(place.name, spent, len(chosen))
            if found:
                self._events.setdefault(place.name, []).append(f"{found['events']} in {took:.2f} s")

    async def _react(self, message: str, chosen: dict[str, str], seconds: float) -> float:
        """Return the time from the first reaction until the last answer."""
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def one(number: int, user: str, emoji: str) -> None:
            await asyncio.sleep(began + seconds * number / len(chosen) - loop.time())
            await self._stage.ask(user, ADD, id=message, emoji=emoji)

        await asyncio.gather(*(one(number, *each) for number, each in enumerate(chosen.items())))
        return loop.time() - began

    async def _check(self, message: str, chosen: dict[str, str], found: dict[str, Any], took: float) -> None:
        owner, expected = self._workspace.members[0], Counter(chosen.values())
        shown = (await self._stage.ask(owner, MESSAGE, id=message))["reactions"]
        _expect("the message", {each["emoji"]: each["count"] for each in shown}, expected)
        _expect("rows", self._stage.database[REACTIONS].count_documents({}) - self._rows, len(chosen))
        self._rows += len(chosen)
        for emoji in EMOJI:
            reactors = await self._reactors(owner, message, emoji)
            _expect(f"reactors of {emoji}", sorted(reactors), sorted(u for u, e in chosen.items() if e == emoji))
        if found:
            _expect("the last events", found["states"], [expected])
            _expect("viewerReacted", found["reacted"], {user: [emoji] for user, emoji in chosen.items()})
            # The first one at once, the last one after the end of its interval.
            most = 1 + math.ceil(took / _INTERVAL_SECONDS)
            if max(map(int, found["events"])) > most:
                raise RuntimeError(f"a watcher got more than {most} events: {found['events']}")

    async def _reactors(self, user: str, message: str, emoji: str) -> list[str]:
        reactors: list[str] = []
        after, is_more = None, True
        while is_more:
            page = await self._stage.ask(user, REACTORS, id=message, emoji=emoji, after=after)
            reactors += [edge["node"]["id"] for edge in page["edges"]]
            after, is_more = page["pageInfo"]["endCursor"], page["pageInfo"]["hasNextPage"]
        return reactors


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise RuntimeError(f"{what}: {found}, and not {expected}")


async def _run(given: argparse.Namespace) -> None:
    made: list[BenchWorkspace] = []

    def prepare(mongo: Any) -> None:
        made.append(
            insert_workspace(mongo[NAME], members=given.watchers + 1, channels=3, followers_of_small=1, history=0)
        )

    async with (
        open_stage(NAME, prepare, given.profile) as stage,
        LoadProcess("bench.threads.watchers") as watchers,
    ):
        bench = Bench(stage, made[0], watchers, given)
        await bench.prepare()
        await bench.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--watchers", type=int, default=1_000)
    parser.add_argument("--reacting", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3.0, help="in which they react")
    parser.add_argument("--turns", type=int, default=2, help="of each place")
    parser.add_argument("--profile", type=Path, help="where to write cProfile's statistics of the server")
    asyncio.run(_run(parser.parse_args()))
