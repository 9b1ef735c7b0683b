"""The cost of pushes to a large group whose members are all offline.

`python -m bench.push --members 10000 --messages 200 --seconds 10` starts MongoDB and Redis, and a server in this
process. Its push service answers after 20 ms. The group gets the messages; meanwhile others write to each other. Prints
the pushes that were sent, the time until the last one, the CPU of all processes, and the delay of the others.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from pymongo import MongoClient

from bench.api_client import InsideAsker
from bench.meter import cpu_seconds
from bench.other_sender import OtherSender, print_delays
from bench.session_data import Row, insert_people
from resolvers.push.push_service import PushMessage, PushOutcome, PushResult
from server.embedded import EmbeddedServers
from server.services import Services, open_services
from server.settings import UNLIMITED, load_settings
from store.base.ids import UserId
from store.devices.device import PushAddress, PushPlatform
from store.devices.device_store import DeviceKey, DeviceUpdate
from store.presence.presence_record import DeviceType

CREATE = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }"
INVITE = "mutation ($id: ID!, $users: [ID!]!) { inviteMembers(groupId: $id, userIds: $users) { id } }"
SEND_TO_GROUP = """mutation ($id: ID!, $text: String!) {
    sendMessage(input: {conversationId: $id, content: $text}) { message { id seq } } }"""

_NAME = "bench_push"
_SERVICE_SECONDS = 0.02
_DEVICES_AT_ONCE = 32
_INVITED_AT_ONCE = 1_000
_QUIET_SECONDS = 8.0
"""Time without a push after which there will be no more: longer than the cool-down."""


@dataclass
class CountingService:
    """Takes every push after a while."""

    counts: Counter[str] = field(default_factory=Counter)
    texts: dict[str, str] = field(default_factory=dict)
    last: float = 0.0

    async def send(self, address: PushAddress, message: PushMessage) -> PushResult:
        await asyncio.sleep(_SERVICE_SECONDS)
        self.counts[address.token] += 1
        self.texts[address.token] = message.body
        self.last = time.perf_counter()
        return PushResult(PushOutcome.ACCEPTED)

    async def close(self) -> None:
        return


class Bench:
    """A group of offline members with phones, and two people who write to each other."""

    def __init__(self, services: Services, service: CountingService, pids: dict[str, int], members: int) -> None:
        self._services = services
        self._service = service
        self._pids = pids
        self._members = [f"m{number:05}" for number in range(members)]
        self._owner, self._other = InsideAsker(services, "owner"), OtherSender(InsideAsker(services, "ann"))
        self._group = ""

    @property
    def people(self) -> list[str]:
        return ["owner", "ann", "bob", *self._members]

    async def prepare(self) -> None:
        """Give all members a phone, and make the group."""
        limit, devices = asyncio.Semaphore(_DEVICES_AT_ONCE), self._services.app.store.devices

        async def add(user: str) -> None:
            async with limit:
                update = DeviceUpdate(DeviceType.MOBILE, push=PushAddress(PushPlatform.FCM, user))
                await devices.update(DeviceKey(UserId(user), "phone"), update, 1)

        await asyncio.gather(*map(add, self._members))
        first = self._members[:_INVITED_AT_ONCE]
        created = await self._owner.ask(CREATE, input={"name": "crowd", "memberIds": first})
        self._group = created["id"]
        for start in range(_INVITED_AT_ONCE, len(self._members), _INVITED_AT_ONCE):
            users = self._members[start : start + _INVITED_AT_ONCE]
            await self._owner.ask(INVITE, id=self._group, users=users)
        await asyncio.sleep(3.0)

    async def run(self, messages: int, seconds: float) -> None:
        """Send the messages, and print what they cost."""
        alone = await self._other.send_for(seconds / 2)
        before, began = self._cpu(), time.perf_counter()
        stop = asyncio.Event()
        others = asyncio.create_task(self._other.send_until(stop))
        waits = []
        for number in range(messages):
            await asyncio.sleep(max(0.0, began + number * seconds / messages - time.perf_counter()))
            start = time.perf_counter()
            await self._owner.ask(SEND_TO_GROUP, id=self._group, text=f"number {number}")
            waits.append(time.perf_counter() - start)
        sent = time.perf_counter()
        while time.perf_counter() - max(self._service.last, sent) < _QUIET_SECONDS:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        stop.set()
        delays = await others
        cpu = {name: after - before[name] for name, after in self._cpu().items()}
        reached = sum(text.endswith(f"number {messages - 1}") for text in self._service.texts.values())
        pushes = sum(self._service.counts.values())
        print(f"{messages} messages in {sent - began:.1f} s to {len(self._members)} offline members with phones")
        each = pushes / len(self._members)
        print(f"pushes: {pushes}, {each:.2f} for each member; {reached} show the last message in the end")
        print(f"the last push came {self._service.last - sent:.1f} s after the last message")
        print("CPU seconds: " + ", ".join(f"{name} {value:.1f}" for name, value in cpu.items()))
        print("CPU for each push: " + ", ".join(f"{name} {1e6 * v / pushes:.0f} µs" for name, v in cpu.items()))
        print_delays("sends to the group", waits)
        print_delays("sends of others, before", alone)
        print_delays("sends of others, meanwhile", delays)

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self._pids.items()}


async def measure(members: int, messages: int, seconds: float, folder: Path) -> None:
    """Start the databases and the server, and measure."""
    with EmbeddedServers(folder) as databases:
        assert databases.mongo_pid is not None and databases.redis_pid is not None
        pids = {"server": os.getpid(), "MongoDB": databases.mongo_pid, "Redis": databases.redis_pid}
        settings = load_settings(
            mongo_url=databases.mongo_url,
            redis_url=databases.redis_url,
            mongo_database=_NAME,
            redis_prefix=f"{_NAME}:",
            max_group_members=members + 1,
            **UNLIMITED,
        )
        service = CountingService()
        async with open_services(
            settings, start_wait_seconds=60.0, push_services={PushPlatform.FCM: service}
        ) as services:
            bench = Bench(services, service, pids, members)
            mongo: MongoClient[Row]
            with MongoClient(databases.mongo_url) as mongo:
                insert_people(mongo[_NAME], bench.people)
            await bench.prepare()
            await bench.run(messages, seconds)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        uvloop.run(measure(options.members, options.messages, options.seconds, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
