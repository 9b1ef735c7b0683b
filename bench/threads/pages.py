"""The cost of a page of messages with threads and reactions next to a page without, and of reacting and pinning alone.

`python -m bench.threads.pages` starts MongoDB, Redis and a server. A group of 20 has 50 messages, of which 20 have
threads, and 40 have reactions of eight people with one emoji. Another group of the same members has 50 plain messages.
Their newest 50 messages are asked for in turns, one request at a time, over HTTP: with and without selecting threads
and reactions, by a member who reacted to all 40 (as one of the last, so the named five do not show it), and by one who
did not. Then messages are sent, reacted to, and pinned in turns. Round trips are counted by executing the same
operations once more in this process.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from bench.command_loop import gather_limited
from bench.selections import CREATE_GROUP, SEND_MESSAGE
from bench.session_data import insert_people
from bench.suite.operations import Ask, Operation
from bench.suite.trips import Count, confab_inside, least_trips
from bench.threads.stage import PROCESSES, Stage, Turns, open_stage

NAME = "bench_pages"
_MEMBERS = [f"u{number:06}" for number in range(20)]
_OWNER, _REACTED, _OTHER = _MEMBERS[0], _MEMBERS[8], _MEMBERS[12]
_REACTING = _MEMBERS[1:9]
_MESSAGES, _WITH_THREADS, _WITH_REACTIONS = 50, 20, 40
_AT_ONCE = 6
_APART_SECONDS = 0.55
"""Longer than the interval in which reactions to one message cause one event."""

_PLAIN = """id seq content contentType state createdAt editedAt authorName sender { id displayName avatarUrl }
    replyTo { id content }"""
THREADS = """thread { id replyCount participantCount participants(first: 3) { id displayName avatarUrl } lastReplyAt
    followerCount isLocked }"""
REACTIONS = "reactions { emoji count viewerReacted users { id displayName } }"


def page_of(*more: str) -> str:
    """Return the query for a page whose messages show more fields."""
    return f"""query ($id: ID!) {{ messages(conversationId: $id, last: {_MESSAGES}) {{
        pageInfo {{ hasPreviousPage startCursor }} edges {{ cursor node {{ {_PLAIN} {" ".join(more)} }} }} }} }}"""


REPLY = "mutation ($id: ID!, $text: String!) { sendMessage(input: {threadOf: $id, content: $text}) { message { id } } }"
REACT = "mutation ($id: ID!, $emoji: String!) { addReaction(messageId: $id, emoji: $emoji) { id } }"
PIN = "mutation ($id: ID!) { pinMessage(messageId: $id) { id } }"


@dataclass(frozen=True, slots=True)
class Page:
    """A page as one member asks for it."""

    name: str
    group: str
    user: str
    query: str


class Bench:
    """The two groups."""

    def __init__(self, stage: Stage, given: argparse.Namespace) -> None:
        self._stage = stage
        self._given = given
        self._turns = Turns()
        self._mutations = Turns()
        self._trips: dict[str, str] = {}
        self._plain = ""
        self._rich = ""
        self._parent = ""
        """A message with a thread."""
        self._messages: list[str] = []
        """Messages of the plain group."""

    async def prepare(self) -> None:
        ask = self._stage.ask
        made = {"name": "Everybody", "memberIds": _MEMBERS[1:]}
        self._plain, self._rich = [(await ask(_OWNER, CREATE_GROUP, input=made))["id"] for _ in range(2)]
        texts = [f"Message {number}, a line of about the usual length." for number in range(_MESSAGES)]
        rich: list[str] = []
        for group, messages in ((self._plain, self._messages), (self._rich, rich)):
            for number, text in enumerate(texts):
                sent = await ask(_MEMBERS[number % 15], SEND_MESSAGE, id=group, text=text)
                messages.append(sent["message"]["id"])
        self._parent = rich[0]
        for user in _MEMBERS[2:5]:
            replies = (ask(user, REPLY, id=parent, text="A reply") for parent in rich[::2][:_WITH_THREADS])
            await gather_limited(replies, _AT_ONCE)
        for user in _REACTING:
            reactions = (ask(user, REACT, id=message, emoji="👍") for message in rich[:_WITH_REACTIONS])
            await gather_limited(reactions, _AT_ONCE)

    def _pages(self) -> list[Page]:
        plain, threads, reactions = page_of(), page_of(THREADS), page_of(REACTIONS)
        both = page_of(THREADS, REACTIONS)
        return [
            Page("plain", self._plain, _OTHER, plain),
            Page("plain, both selected", self._plain, _OTHER, both),
            Page("20 threads, 40 reactions, not selected", self._rich, _OTHER, plain),
            Page("threads selected", self._rich, _OTHER, threads),
            Page("reactions selected", self._rich, _OTHER, reactions),
            Page("both, viewer has not reacted", self._rich, _OTHER, both),
            Page("both, viewer has reacted", self._rich, _REACTED, both),
        ]

    async def run(self) -> None:
        pages = self._pages()
        sizes = {page.name: await self._check(page) for page in pages}
        await self._stage.settle()
        for number in range(self._given.turns + 1):
            for page in pages:
                spent = await self._stage.measure(lambda page=page: self._ask(page, self._given.times), 0.02)
                if number:
                    self._turns.add(page.name, spent, self._given.times)
        await self._count_trips(pages)
        extra = {name: f"trips {self._trips[name]}, {size:,} bytes" for name, size in sizes.items()}
        self._turns.print_table("a page of 50 messages", extra)
        for page in pages[1:]:
            costs = [sum(self._turns.medians(name)[process] for process in PROCESSES) for name in (page.name, "plain")]
            print(f"{page.name}: {costs[0] / costs[1]:.2f} times a plain page")

    async def _ask(self, page: Page, times: int) -> None:
        for _ in range(times):
            await self._stage.ask(page.user, page.query, id=page.group)

    async def _check(self, page: Page) -> int:
        """Check what a page shows. Return its bytes."""
        asker = self._stage.asker(page.user)
        before = asker.received
        nodes = [edge["node"] for edge in (await asker.ask(page.query, id=page.group))["edges"]]
        rich = page.group == self._rich
        shown = {
            "thread": sum(bool(node.get("thread")) for node in nodes),
            "reactions": sum(bool(node.get("reactions")) for node in nodes),
            "reacted": sum(node["reactions"][0]["viewerReacted"] for node in nodes if node.get("reactions")),
        }
        has_reactions = rich and "reactions" in page.query
        expected = {
            "thread": _WITH_THREADS if rich and "thread" in page.query else 0,
            "reactions": _WITH_REACTIONS if has_reactions else 0,
            "reacted": _WITH_REACTIONS if has_reactions and page.user in _REACTING else 0,
        }
        if len(nodes) != _MESSAGES or shown != expected:
            raise RuntimeError(f"{page.name}: {len(nodes)} messages, {shown} and not {expected}")
        return asker.received - before

    async def _count_trips(self, pages: list[Page]) -> None:
        async with confab_inside(self._stage.databases, NAME) as (ask, count):
            for page in pages:
                act = _asking(ask, page.user, page.query, id=page.group)
                self._trips[page.name] = await _least(page.name, act, count)

    async def run_mutations(self) -> None:
        """Measure mutations one at a time, each with everything that it causes."""
        emoji = cycle(f":e{number}:" for number in range(20))
        messages, pinned = iter(self._messages), iter(self._messages)

        def acts(ask: Ask) -> Mapping[str, Callable[[], Awaitable[Any]]]:
            return {
                "sendMessage": lambda: ask(_OWNER, SEND_MESSAGE, id=self._plain, text="Some text"),
                "reply of a follower": lambda: ask(_MEMBERS[2], REPLY, id=self._parent, text="Some text"),
                "addReaction": lambda: ask(_OWNER, REACT, id=next(messages), emoji=next(emoji)),
                "pinMessage": lambda: ask(_OWNER, PIN, id=next(pinned)),
            }

        for number in range(self._given.mutations + 1):
            for name, act in acts(self._stage.ask).items():
                spent = await self._stage.measure(act, _APART_SECONDS)
                if number:
                    self._mutations.add(name, spent)
        trips: dict[str, str] = {}
        async with confab_inside(self._stage.databases, NAME) as (ask, count):
            for name, act in acts(ask).items():
                trips[name] = "trips " + await _least(name, act, count, _APART_SECONDS)
        self._mutations.print_table("mutations in a group of 20, at rest", trips)


def _asking(ask: Ask, user: str, query: str, **variables: Any) -> Callable[[], Awaitable[Any]]:
    return lambda: ask(user, query, **variables)


async def _least(name: str, act: Callable[[], Awaitable[Any]], count: Count, settle_seconds: float = 0.02) -> str:
    mongo, redis = await least_trips(Operation(name, name, act, settle_seconds=settle_seconds), count)
    return f"{mongo} + {redis}"


async def _run(given: argparse.Namespace) -> None:
    async with open_stage(NAME, lambda mongo: insert_people(mongo[NAME], _MEMBERS), given.profile) as stage:
        bench = Bench(stage, given)
        await bench.prepare()
        await bench.run()
        await bench.run_mutations()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--times", type=int, default=20, help="requests in each turn")
    parser.add_argument("--mutations", type=int, default=8, help="of each kind")
    parser.add_argument("--profile", type=Path, help="where to write cProfile's statistics of the server")
    asyncio.run(_run(parser.parse_args()))
