"""The cost of a user's first screen and of synchronisation, if the user has sessions in many channels.

`python -m bench.channel_states` starts MongoDB, Redis and a server and sends operations over HTTP. Of the channels of
each workspace the user has a session in all, and follows some.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from redis.asyncio import Redis

from bench.api_client import Asker
from bench.meter import Cost, Meter
from bench.session_data import Owner, Row, insert_owner, insert_people
from server.embedded import EmbeddedServers
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, channel_id, everyone_id, workspace_id
from store.conversations.conversation import Member
from store.mongo.collections import (
    CHANNELS,
    CONVERSATIONS,
    MEMBERS,
    SESSIONS,
    WORKSPACE_MEMBERS,
    WORKSPACES,
    WORKSPACES_OF,
    member_row_id,
    session_row_id,
    workspace_of_user_row_id,
)
from store.workspaces.documents import channel_document, member_document, policy_fields
from store.workspaces.permissions import OF_EVERYONE
from store.workspaces.policy import Channel, ChannelKind, MemberFacts, Policy, Role
from tests.processes import ServerProcess, serving_processes

_NAME = "bench_channels"
_SHOWN = "{ id unreadCount writeTs activeTs conversation { id title } lastMessage { content sender { displayName } } }"
_PAGE = f"{{ sessions(first: 20) {{ cursor totalUnread edges {{ node {_SHOWN} }} }} }}"
_SYNC = f"""query ($since: Cursor) {{ syncSessions(since: $since, first: 100) {{
    cursor totalUnread hasMore reset sessions {_SHOWN} }} }}"""
_READY = f"""{{ ready {{ me {{ id displayName avatarUrl }} attention {{ unread mentions threads }} cursor
    sessions {{ totalUnread cursor edges {{ node {_SHOWN} }} }}
    workspaces {{ id name iconUrl memberCount rev viewerPermissions }} presence {{ setting shown }} }} }}"""
_SEPARATE = (
    "{ me { id displayName avatarUrl } }",
    "{ attention { unread mentions threads } }",
    f"{{ sessions(first: 50) {{ totalUnread cursor edges {{ node {_SHOWN} }} }} }}",
    "{ myWorkspaces { edges { node { id name iconUrl memberCount rev viewerPermissions } } } }",
)
"""The queries of a client that does not use `ready`, except the one about the user's own presence."""
_FOLLOWED = """query ($id: ID!) { followedChannels(workspaceId: $id) { edges { node {
    id name position messageCount session { readCount unreadMentionCount muteStatus } } } } }"""
_SYNC_CHANNELS = """query ($since: Cursor) { syncChannels(since: $since) {
    cursor hasMore reset gone attention { unread mentions }
    channels { id name messageCount session { readCount unreadMentionCount muteStatus } } } }"""
_SEND = 'mutation ($id: ID!) { sendMessage(input: {conversationId: $id, content: "What arrives"}) { message { id } } }'

_CHANGES = 3

_CLOCKS_BEGIN_SECONDS = 8.0
"""Time after which the clocks of workspaces are older than the margin of a cursor."""


class World:
    """Workspaces with channels, and their members: a user and a sender."""

    def __init__(self, user: str, sender: str, workspaces: int, channels: int, followed: int) -> None:
        self.user = user
        self.sender = sender
        self.workspaces = [workspace_id(100_000 + number) for number in range(workspaces)]
        self._channels = channels
        self._followed = followed
        self.rows: dict[str, list[Row]] = {}

    def followed_in(self, workspace: WorkspaceId) -> list[ConversationId]:
        """Return the channels of a workspace that the user follows."""
        return [channel_id(workspace, number) for number in range(self._followed)]

    def insert(self, mongo: MongoClient[Row]) -> None:
        """Insert everything."""
        now = time.time_ns() // 1_000_000 - 120_000
        for workspace in self.workspaces:
            self._add(workspace, now)
        for collection, rows in self.rows.items():
            mongo[_NAME][collection].insert_many(rows, ordered=False)

    def _add(self, workspace: WorkspaceId, now: int) -> None:
        everyone = Role(everyone_id(workspace), "everyone", 0, OF_EVERYONE)
        ids = [channel_id(workspace, number) for number in range(self._channels)]
        channels = [
            Channel(id, f"channel {position}", ChannelKind.PUBLIC, position, now) for position, id in enumerate(ids)
        ]
        people = [UserId(self.user), UserId(self.sender)]
        policy = Policy(workspace, 1, people[0], {everyone.id: everyone}, {}, {each.id: each for each in channels})
        document = {"_id": workspace, "name": f"Workspace {workspace}", "ct": now, "mc": 2, "by": people[0]}
        self._put(WORKSPACES, document | policy_fields(policy))
        for channel in channels:
            self._put(CHANNELS, channel_document(workspace, channel))
            self._put(CONVERSATIONS, {"_id": channel.id, "k": "C", "s": 9, "n": 9, "at": now, "w": now})
            row = {"_id": session_row_id(people[0], channel.id), "r": 6, "rn": 6, "d": 6, "a": now, "w": 0}
            self._put(SESSIONS, row | {"ch": channel.id} | ({"fw": 1} if channel.position < self._followed else {}))
            if channel.position < self._followed:
                member = Member(people[0], "", ((1, None),), now).to_fields()
                self._put(MEMBERS, {"_id": member_row_id(channel.id, people[0])} | member)
        for user in people:
            self._put(WORKSPACE_MEMBERS, member_document(workspace, MemberFacts(user, 1, joined_at_ms=now), user))
            self._put(WORKSPACES_OF, {"_id": workspace_of_user_row_id(user, workspace), "j": now})

    def _put(self, collection: str, row: Row) -> None:
        self.rows.setdefault(collection, []).append(row)


class Bench:
    """The operations of one user."""

    def __init__(self, world: World, owner: Owner, server: ServerProcess, meter: Meter, redis: Redis) -> None:
        self._world = world
        self._owner = owner
        self._meter = meter
        self._redis = redis
        self._asker, self._sender = Asker(server, world.user), Asker(server, world.sender)
        self._peers = [Asker(server, peer) for peer in owner.peers[:_CHANGES]]
        self._cursor: str | None = None

    async def run(self, only: list[str]) -> dict[str, Cost]:
        """Return the cost of each operation."""
        costs = {}
        try:
            for name, (operation, before, times) in {
                "sessions, cold": (self._asking(_PAGE), self._forget, 7),
                "sessions": (self._asking(_PAGE), None, 25),
                "syncSessions": (self._sync(_SYNC, "sessions"), self._write_privately, 15),
                "followedChannels": (self._followed, None, 15),
                "syncChannels": (self._sync(_SYNC_CHANNELS, "channels"), self._write_in_channels, 15),
                "ready, cold": (self._asking(_READY), self._forget, 7),
                "ready": (self._asking(_READY), None, 25),
                "separate queries": (self._asking(*_SEPARATE), None, 25),
            }.items():
                if only and name not in only:
                    continue
                if before in (self._write_privately, self._write_in_channels):
                    # Everything is cached then, and the cursor is later than the begin of the clocks.
                    await before(0)
                    await asyncio.sleep(_CLOCKS_BEGIN_SECONDS)
                    await self._sync_all(_SYNC if name == "syncSessions" else _SYNC_CHANNELS)
                    await before(0)
                await operation(0)
                costs[name] = await self._meter.measure(operation, times, before_each=before)
        finally:
            for asker in (self._asker, self._sender, *self._peers):
                await asker.close()
        return costs

    async def _forget(self, _number: int) -> None:
        pattern = f"{_NAME}*{{u:{self._world.user}}}:*"
        keys = [key async for key in self._redis.scan_iter(match=pattern, count=10_000)]
        if keys:
            await self._redis.delete(*keys)

    async def _write_privately(self, _number: int) -> None:
        for number, peer in enumerate(self._peers):
            await peer.ask(_SEND, id=self._owner.conversations[2 * number])

    async def _write_in_channels(self, _number: int) -> None:
        for channel in self._world.followed_in(self._world.workspaces[0])[:_CHANGES]:
            await self._sender.ask(_SEND, id=channel)

    def _asking(self, *queries: str) -> Any:
        async def ask(_number: int) -> int:
            before = self._asker.received
            for query in queries:
                await self._asker.ask(query)
            return self._asker.received - before

        return ask

    def _sync(self, query: str, changed: str) -> Any:
        async def ask(_number: int) -> int:
            before = self._asker.received
            delta = await self._asker.ask(query, since=self._cursor)
            if delta["reset"] or delta["hasMore"]:
                raise RuntimeError(f"{len(delta[changed])} {changed}, reset: {delta['reset']}")
            self._cursor = delta["cursor"]
            return self._asker.received - before

        return ask

    async def _sync_all(self, query: str) -> None:
        self._cursor, has_more = None, True
        while has_more:
            delta = await self._asker.ask(query, since=self._cursor)
            self._cursor, has_more = delta["cursor"], delta["hasMore"]

    async def _followed(self, _number: int) -> int:
        before = self._asker.received
        for workspace in self._world.workspaces:
            await self._asker.ask(_FOLLOWED, id=workspace)
        return self._asker.received - before


async def _main(arguments: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder / "databases") as databases:
            await _measure(databases, folder, arguments)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _measure(databases: EmbeddedServers, folder: Path, arguments: argparse.Namespace) -> None:
    world = World("owner", "sender", arguments.workspaces, arguments.channels, arguments.followed)
    async with (
        serving_processes(databases, 1, folder, _NAME) as (server,),
        Redis.from_url(databases.redis_url) as redis,
    ):
        with MongoClient[Row](databases.mongo_url) as mongo:
            owner = insert_owner(mongo[_NAME], world.user, arguments.sessions)
            insert_people(mongo[_NAME], [world.user, world.sender, *owner.peers])
            if arguments.workspaces:
                world.insert(mongo)
        assert databases.mongo_pid is not None and databases.redis_pid is not None
        meter = Meter({"server": server.pid, "mongod": databases.mongo_pid, "valkey": databases.redis_pid})
        await asyncio.sleep(2)
        await meter.learn_idle(2.0)
        costs = await Bench(world, owner, server, meter, redis).run(arguments.only)
    print(f"{'operation':<18} {'wall ms':>8} {'CPU ms: server':>15} {'MongoDB':>8} {'Redis':>8} {'bytes':>9}")
    for name, cost in costs.items():
        cpu = [1000 * cost.cpu[process] for process in ("server", "mongod", "valkey")]
        print(f"{name:<18} {1000 * cost.seconds:>8.1f} {cpu[0]:>15.2f} {cpu[1]:>8.2f} {cpu[2]:>8.3f} {cost.size:>9,}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100, help="sessions of the user outside of channels")
    parser.add_argument("--workspaces", type=int, default=5, help="workspaces of the user")
    parser.add_argument("--channels", type=int, default=400, help="channels of each workspace, all with a session")
    parser.add_argument("--followed", type=int, default=40, help="followed channels of each workspace")
    parser.add_argument("--only", nargs="*", default=[], help="names of operations")
    asyncio.run(_main(parser.parse_args()))
