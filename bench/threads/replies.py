"""The cost of a reply in a thread next to a message to a group of the same size.

`python -m bench.threads.replies` starts MongoDB, Redis and a server. All members of a group of 1,000 follow a thread in
it, and 500 of them are connected with messageEvents. The same with a group of 10. Replies and messages are sent in
turns by one member, over HTTP; the clients that listen are in a process of their own. Both are measured until all
deliveries have arrived. *At rest*: more than a second apart, so that each reply causes ThreadChanged for all members.
*In a row*: ten at a time, each after the answer to the one before. `--channel` puts the thread into a channel, where
only those who look get ChannelThread.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.load_process import LoadProcess
from bench.selections import CREATE_GROUP, SEND_MESSAGE
from bench.subscriber import stamp
from bench.threads.stage import PROCESSES, Stage, Turns, open_stage
from bench.workspace_data import BenchWorkspace, insert_workspace

NAME = "bench_replies"
_BETWEEN_SECONDS = 0.6
"""Between two turns. So replies in the same thread are further apart than the second of a ThreadChanged."""
_AFTERMATH_SECONDS = 0.15

EVENTS = """subscription { messageEvents { __typename
    ... on MessageCreated { cursor message {
        id conversationId seq content contentType state createdAt sender { id displayName avatarUrl } } }
    ... on ThreadChanged { cursor parentId thread { id replyCount participantCount lastReplyAt } }
    ... on CaughtUp { cursor reset } } }"""
MENTION = """mutation ($id: ID!, $people: [ID!]!) {
    sendMessage(input: {threadOf: $id, content: "What do you all think?", mentions: $people}) { message { id } } }"""
THREAD = "query ($id: ID!) { thread(id: $id) { followerCount } }"
REPLY = "mutation ($id: ID!, $text: String!) { sendMessage(input: {threadOf: $id, content: $text}) { message { id } } }"
SEND = """mutation ($id: ID!, $text: String!) {
    sendMessage(input: {conversationId: $id, content: $text}) { message { id seq conversationId } } }"""


@dataclass(frozen=True, slots=True)
class Action:
    """A message that some connected people get."""

    name: str
    sender: str
    query: str
    target: str
    listeners: str
    deliveries: int


class Bench:
    """A large and a small group, each with a thread that all members follow."""

    def __init__(self, stage: Stage, load: LoadProcess, given: argparse.Namespace, workspace: BenchWorkspace) -> None:
        self._stage = stage
        self._load = load
        self._given = given
        self._workspace = workspace
        self._actions: list[Action] = []
        self._turns = Turns()

    async def prepare(self) -> None:
        people = self._workspace.members
        size, connected, small = self._given.members, self._given.connected, self._given.small
        for name, members, online in (
            ("large", people[:size], people[1 : connected + 1]),
            ("small", people[-small:], people[-small + 1 :]),
        ):
            await self._prepare(name, members, online)

    async def _prepare(self, name: str, members: Sequence[str], online: Sequence[str]) -> None:
        loop, stage, owner = asyncio.get_running_loop(), self._stage, members[0]
        made = {"name": "Everybody", "memberIds": members[1:]}
        group = (await stage.ask(owner, CREATE_GROUP, input=made))["id"]
        place = self._workspace.large if self._given.channel else group
        parent = (await stage.ask(owner, SEND, id=place, text="What do you think?"))["message"]
        await stage.ask(owner, REPLY, id=parent["id"], text="I begin")
        thread, began = f"t_{parent['seq']}_{place}", loop.time()

        await stage.ask(owner, MENTION, id=parent["id"], people=members[1:])
        followers = (await stage.ask(owner, THREAD, id=thread))["followerCount"]
        if followers != len(members):
            raise RuntimeError(f"{followers} of {len(members)} follow")
        print(f"{len(members):,} follow a thread after {loop.time() - began:.0f} s", flush=True)
        await self._load.ask(
            "open", name=name, port=stage.server.port, path="/graphql", users=online, subscriptions=[EVENTS]
        )
        title = f"{len(members):,}, {len(online)} connected"
        self._actions += [
            Action(f"message to a group of {title}", owner, SEND_MESSAGE, group, name, len(online)),
            Action(f"reply to {title}", owner, REPLY, parent["id"], name, len(online)),
        ]

    async def run(self) -> None:
        for action in self._actions:
            await self._send(action, 3)
        await self._stage.settle()
        for how, times in (("at rest", 1), ("in a row", self._given.row)):
            for _ in range(self._given.turns if times else 0):
                for action in self._actions:
                    await self._measure(action, how, times)
                    await asyncio.sleep(_BETWEEN_SECONDS)
        where = "channel" if self._given.channel else "group"
        self._turns.print_table(f"threads in a {where}: each message")
        for how in ("at rest", "in a row") if self._given.row else ("at rest",):
            for message, reply in zip(self._actions[::2], self._actions[1::2], strict=True):
                costs = [self._turns.medians(f"{action.name}, {how}") for action in (reply, message)]
                ratios = [f"{name} {costs[0][name] / costs[1][name]:.2f}" for name in PROCESSES]
                whole = [sum(cost[name] for name in PROCESSES) for cost in costs]
                print(f"{reply.name}, {how}: {whole[0] / whole[1]:.2f} times a message ({', '.join(ratios)})")

    async def _measure(self, action: Action, how: str, times: int) -> None:
        spent = await self._stage.measure(lambda: self._send(action, times), _AFTERMATH_SECONDS)
        self._turns.add(f"{action.name}, {how}", spent, times)

    async def _send(self, action: Action, times: int) -> None:
        for _ in range(times):
            await self._stage.ask(action.sender, action.query, id=action.target, text=f"To everybody, {stamp()}")
        await self._load.ask("wait", name=action.listeners, count=action.deliveries * times)
        await self._load.ask("report", name=action.listeners)


async def _run(given: argparse.Namespace) -> None:
    made: list[BenchWorkspace] = []

    def prepare(mongo: Any) -> None:
        members = given.members + given.small
        made.append(insert_workspace(mongo[NAME], members=members, channels=3, followers_of_small=1, history=0))

    async with open_stage(NAME, prepare, given.profile) as stage, LoadProcess() as load:
        bench = Bench(stage, load, given, made[0])
        await bench.prepare()
        await bench.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--connected", type=int, default=500)
    parser.add_argument("--small", type=int, default=10, help="members of the small group, all connected")
    parser.add_argument("--channel", action="store_true", help="threads in a channel")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--row", type=int, default=10, help="messages in a row; 0: none")
    parser.add_argument("--profile", type=Path, help="where to write cProfile's statistics of the server")
    asyncio.run(_run(parser.parse_args()))
