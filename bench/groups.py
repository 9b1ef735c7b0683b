"""The cost of a large group.

`python -m bench.groups --members 5000 --online 200` starts MongoDB, Redis and a server and sends operations over
HTTP. Then it executes them once more inside its own process, to count the round trips that requests wait for.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pymongo import MongoClient

from bench.api_client import Asker, InsideAsker
from bench.group_listeners import Listeners
from bench.meter import Cost, Meter
from bench.session_data import Row, insert_people
from resolvers.base.cursors import encode_page
from server.embedded import EmbeddedServers
from server.services import open_services
from server.settings import UNLIMITED, load_settings
from tests.processes import serving_processes

_CREATE = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id memberCount } }"
_INVITE = "mutation ($id: ID!, $users: [ID!]!) { inviteMembers(groupId: $id, userIds: $users) { id memberCount } }"
_LEAVE = "mutation ($id: ID!) { leaveGroup(groupId: $id) }"
_DISMISS = "mutation ($id: ID!) { dismissGroup(groupId: $id) }"
_SEND = (
    "mutation ($id: ID!, $text: String!) { sendMessage(input: {conversationId: $id, content: $text}) "
    "{ message { id seq createdAt } session { writeSeq activeTs } } }"
)
_EDIT = "mutation ($id: ID!, $text: String!) { editMessage(messageId: $id, content: $text) { id content editCount } }"
_READ = "mutation ($id: ID!) { markRead(conversationId: $id) { readSeq unreadCount activeTs } }"
_ACK = "mutation ($id: ID!, $seq: Int!) { ackDelivered(conversationId: $id, upToSeq: $seq) { deliveredSeq activeTs } }"
_TOTAL_UNREAD = "{ totalUnread }"
_DELIVERY = """query ($id: ID!) { messages(conversationId: $id, last: 50) { edges { node {
    id seq delivery { status recipientCount deliveredCount readCount } } } } }"""
_RECEIPTS = """query ($id: ID!, $after: String, $status: ReceiptStatus) { message(id: $id) {
    receipts(first: 50, after: $after, status: $status) { pageInfo { hasNextPage }
    edges { cursor node { user { id displayName } status deliveredAt readAt } } } } }"""

_AT_ONCE = 16
_CHANGING_MEMBERS = 8
"""Number of members that leave, and of people that join."""

_NAME = "bench_groups"

Act = Callable[[int], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Trips:
    """Round trips that a request waits for."""

    mongo: int
    redis: int


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation to measure. `spreads`: it causes work after its answer."""

    name: str
    user: str
    act: Act
    times: int = 15
    before_each: Act | None = None
    spreads: bool = False


@dataclass
class TestGroup:
    """A group: its members in the order of their ids, its owner first, and people who are not in it yet."""

    members: list[str]
    newcomers: Iterator[str]
    leavers: Iterator[str]
    group: str = ""
    seq: int = 0
    message: str = ""
    message_seq: int = 0
    """A message that a third of the members have read, a third have received, in the order of their ids."""
    others: list[str] = field(default_factory=list)
    """Groups of the same size, to be dismissed."""

    @property
    def owner(self) -> str:
        return self.members[0]


class Bench:
    """One group, used by any of its members."""

    def __init__(self, group: TestGroup, asker: Callable[[str], Asker | InsideAsker]) -> None:
        self.group = group
        self.received = 0
        self._asker = asker
        self._open: dict[str, Asker | InsideAsker] = {}

    async def close(self) -> None:
        for asker in self._open.values():
            await asker.close()

    async def ask(self, user: str, query: str, **variables: object) -> Row:
        """Return the value of a query's one field, for a user who stays connected."""
        asker = self._open.get(user) or self._open.setdefault(user, self._asker(user))
        before = asker.received
        value: Row = await asker.ask(query, **variables)
        self.received += asker.received - before
        return value

    async def run(self, operation: Operation, meter: Meter) -> Cost:
        async def act(number: int) -> int:
            before = self.received
            await operation.act(number)
            return self.received - before

        if operation.user:
            await self.ask(operation.user, _TOTAL_UNREAD)
        return await meter.measure(
            act, operation.times, before_each=operation.before_each, until_calm=operation.spreads
        )

    # Preparation.

    async def create(self) -> None:
        self.group.group = (await self._create())["id"]

    async def cache_all_states(self) -> None:
        """Send a request as every member, so that Redis has their states.

        A third of them read, a third acknowledge delivery.
        """
        group = self.group
        sent = await self.send()
        group.message, group.message_seq = sent["message"]["id"], sent["message"]["seq"]
        third = len(group.members) // 3

        async def one(number: int) -> None:
            asker = self._asker(group.members[number])
            if 0 < number <= third:
                await asker.ask(_READ, id=group.group)
            elif number <= 2 * third:
                await asker.ask(_ACK, id=group.group, seq=group.message_seq)
            else:
                await asker.ask(_TOTAL_UNREAD)
            await asker.close()

        waiting = iter(range(1, len(group.members)))

        async def several() -> None:
            for number in waiting:
                await one(number)

        await asyncio.gather(*(several() for _ in range(_AT_ONCE)))

    # Measured operations.

    async def _create(self, _number: int = 0) -> Row:
        made = {"name": "Everybody", "memberIds": self.group.members[1:]}
        group = await self.ask(self.group.owner, _CREATE, input=made)
        assert group["memberCount"] == len(self.group.members)
        return group

    async def create_another(self, _number: int) -> None:
        self.group.others.append((await self._create())["id"])

    async def dismiss(self, _number: int) -> None:
        await self.ask(self.group.owner, _DISMISS, id=self.group.others.pop())

    async def send(self, number: int = 0) -> Row:
        sent = await self.ask(self.group.owner, _SEND, id=self.group.group, text=f"A message to everybody: {number}")
        self.group.seq = sent["message"]["seq"]
        return sent

    async def invite(self, _number: int) -> None:
        await self.ask(self.group.owner, _INVITE, id=self.group.group, users=[next(self.group.newcomers)])

    async def leave(self, _number: int) -> None:
        await self.ask(next(self.group.leavers), _LEAVE, id=self.group.group)

    async def edit(self, _number: int) -> None:
        await self.ask(self.group.owner, _EDIT, id=self.group.message, text=f"Edited content at {time.time_ns()}")

    async def read(self, _number: int) -> None:
        await self.ask(self.group.members[1], _READ, id=self.group.group)

    async def acknowledge(self, _number: int) -> None:
        await self.ask(self.group.members[2], _ACK, id=self.group.group, seq=self.group.seq)

    async def deliveries(self, _number: int) -> None:
        page = await self.ask(self.group.owner, _DELIVERY, id=self.group.group)
        assert any(edge["node"]["delivery"] for edge in page["edges"])

    def receipts(self, status: str | None, *, end: bool) -> Operation:
        """Select a page of 50 receipts with a status, from the start or the end."""
        group = self.group
        third = len(group.members) // 3
        last = {"READ": third, "DELIVERED": 2 * third}.get(status or "", len(group.members) - 1)
        after = encode_page("r", group.group, group.message_seq, group.members[last - 50]) if end else None

        async def page(_number: int) -> None:
            found = await self.ask(group.owner, _RECEIPTS, id=group.message, after=after, status=status)
            assert len(found["receipts"]["edges"]) == 50
            assert found["receipts"]["pageInfo"]["hasNextPage"] is not end

        name = f"50 receipts, {status or 'all'}, {'end' if end else 'beginning'}"
        return Operation(name, group.owner, page)

    def message(self, who: str, times: int = 5) -> Operation:
        return Operation(f"message, {who}", self.group.owner, self.send, times, spreads=True)

    def operations(self) -> Iterator[Operation]:
        """Return the operations on a group whose members' states are in Redis."""
        owner = self.group.owner
        # Before other changes, which move members to other positions.
        for status in (None, "READ", "DELIVERED", "SENT"):
            for end in (False, True):
                yield self.receipts(status, end=end)
        yield Operation("delivery of 50 messages", owner, self.deliveries)
        yield Operation("markRead", self.group.members[1], self.read, 5, self.send, spreads=True)
        yield Operation("ackDelivered", self.group.members[2], self.acknowledge, 5, self.send, spreads=True)
        yield Operation("editMessage", owner, self.edit, 5, spreads=True)
        # In this order, because the group has the maximum size.
        yield Operation("leaveGroup", "", self.leave, 5, spreads=True)
        yield Operation("inviteMembers, one", owner, self.invite, 5, spreads=True)
        yield Operation("createGroup", owner, self.create_another, 3, spreads=True)
        yield Operation("dismissGroup", owner, self.dismiss, 3, spreads=True)


async def measure_costs(databases: EmbeddedServers, folder: Path, group: TestGroup, online: int) -> dict[str, Cost]:
    """Measure the operations on a separate server."""
    assert databases.mongo_pid is not None and databases.redis_pid is not None
    costs: dict[str, Cost] = {}
    async with AsyncExitStack() as stack:
        (server,) = await stack.enter_async_context(serving_processes(databases, 1, folder, _NAME))
        meter = Meter({"server": server.pid, "mongod": databases.mongo_pid, "valkey": databases.redis_pid})
        await asyncio.sleep(3)
        await meter.learn_idle()
        bench = Bench(group, lambda user: Asker(server, user))
        stack.push_async_callback(bench.close)

        async def measure(operation: Operation) -> None:
            costs[operation.name] = await bench.run(operation, meter)
            print(f"  measured {operation.name}", flush=True)

        await bench.create()
        await measure(bench.message("nobody's state in Redis"))
        for number in range(50):
            await bench.send(number)
        await bench.cache_all_states()
        await meter.wait_until_idle()
        print("  all have asked something", flush=True)
        await measure(bench.message("all offline"))
        for operation in bench.operations():
            await measure(operation)
        async with Listeners(server, group.members[2 :: max(1, len(group.members) // online)][:online]) as listeners:
            await asyncio.sleep(1)
            await meter.learn_idle()
            await measure(bench.message(f"{online} online"))
            await listeners.wait_for(costs[f"message, {online} online"].times)
            await meter.wait_until_idle()
        print(f"  the last of {online} members received a message {1000 * listeners.latest():.0f} ms after it was sent")
    return costs


async def count_trips(databases: EmbeddedServers, group: TestGroup) -> dict[str, Trips]:
    """Return the round trips of each operation: the least of several runs."""
    settings = load_settings(
        **UNLIMITED,
        mongo_url=databases.mongo_url,
        redis_url=databases.redis_url,
        mongo_database=_NAME,
        redis_prefix=f"{_NAME}:",
    )
    trips: dict[str, Trips] = {}
    async with open_services(settings, start_wait_seconds=60) as services:
        store = services.app.store
        bench = Bench(group, lambda user: InsideAsker(services, user))
        for operation in (bench.message("all offline"), *bench.operations()):
            runs = []
            for number in range(min(operation.times, 3)):
                if operation.before_each is not None:
                    await operation.before_each(number)
                await asyncio.sleep(1.0 if operation.spreads else 0.02)
                mongo, redis = store.mongo.trips, store.cache.trips
                await operation.act(number)
                runs.append(Trips(store.mongo.trips - mongo, store.cache.trips - redis))
            trips[operation.name] = Trips(min(run.mongo for run in runs), min(run.redis for run in runs))
    return trips


def _print_table(members: int, costs: dict[str, Cost], trips: dict[str, Trips]) -> None:
    print(
        f"\n{f'group of {members:,}':<34} {'wall ms':>9} {'CPU ms: server':>15} {'MongoDB':>8} {'Redis':>8} "
        f"{'trips: MongoDB':>15} {'Redis':>6} {'bytes':>9}"
    )
    for name, cost in costs.items():
        cpu = [1000 * cost.cpu[process] for process in ("server", "mongod", "valkey")]
        waited = (f"{trips[name].mongo}", f"{trips[name].redis}") if name in trips else ("", "")
        print(
            f"{name:<34} {1000 * cost.seconds:>9.1f} {cpu[0]:>15.1f} {cpu[1]:>8.1f} {cpu[2]:>8.1f} "
            f"{waited[0]:>15} {waited[1]:>6} {cost.size:>9,}"
        )


async def _main(arguments: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    members = [f"u{number:06}" for number in range(arguments.members)]
    newcomers = [f"v{number:06}" for number in range(_CHANGING_MEMBERS)]
    group = TestGroup(members, iter(newcomers), iter(members[-_CHANGING_MEMBERS:]))
    try:
        with EmbeddedServers(folder / "databases") as databases:
            with MongoClient[Row](databases.mongo_url) as mongo:
                insert_people(mongo[_NAME], members + newcomers)
            costs = await measure_costs(databases, folder, group, arguments.online)
            _print_table(arguments.members, costs, await count_trips(databases, group))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=5_000, help="of the group (CONFAB_MAX_GROUP_MEMBERS: 5,000)")
    parser.add_argument("--online", type=int, default=200, help="members with a connection, in one of the measurements")
    asyncio.run(_main(parser.parse_args()))
