"""The part of a run that is about workspaces: its devices, its actors, and its checks."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Sequence

from pymongo.database import Database

from store.mongo.collections import MEMBERS, MESSAGES, WORKSPACE_MEMBERS
from tests.chaos.judges.history import Json
from tests.chaos.load.device import Device
from tests.chaos.load.load_end import LoadEnd
from tests.chaos.load.load_state import LoadState
from tests.chaos.workspaces.final_check import ChannelFinalCheck, StoredChannels
from tests.chaos.workspaces.member_actor import CHANGES, MemberActor
from tests.chaos.workspaces.member_device import MemberDevice
from tests.chaos.workspaces.spaces import Spaces, create_workspace


class WorkspaceLoad:
    """The workspaces of a run. Each person has one more device for them."""

    def __init__(self, load: LoadState, rng: random.Random, count: int) -> None:
        """Prepare. count: workspaces; 0 for a run without any."""
        self.spaces = Spaces(load)
        self.devices = [MemberDevice(load, user, rng.getrandbits(32)) for user in load.users] if count else []
        self._actors = [MemberActor(device, self.spaces) for device in self.devices]
        self._count = count
        self._load = load
        self._rng = rng

    async def set_up(self) -> None:
        """Create the workspaces. Two thirds of all people join each of them."""
        for number in range(self._count):
            admin = self._actors[number % len(self._actors)]
            workspace = await create_workspace(admin.device, self._load.users, self._rng)
            self.spaces.workspaces.append(workspace)
            await admin.device.open_workspace(workspace.id)
            others = [actor for actor in self._actors if actor is not admin]
            joining = self._rng.sample(others, max(1, len(others) * 2 // 3))
            await asyncio.gather(*(actor.join(workspace) for actor in joining))

    def start(self) -> None:
        """Connect all devices."""
        for device in self.devices:
            device.start()

    @property
    def is_unsettled(self) -> bool:
        """True while a device waits for a connection, for the end of a catch-up, or for answers."""
        return any(device.is_unsettled for device in self.devices)

    def act(self, until: LoadEnd, pause: float) -> list[Awaitable[None]]:
        """Return the work of all actors. Each kind of change comes first for some of them."""
        return [actor.act(until, pause, CHANGES[number % len(CHANGES)]) for number, actor in enumerate(self._actors)]

    async def send_once(self) -> None:
        """Send a message as everyone, which ends the recovery from the last faults."""
        await asyncio.gather(*(actor.do("send") for actor in self._actors))

    def end_disturbances(self) -> None:
        """Let all devices connect and read."""
        for device in self.devices:
            device.offline_until = 0.0
            if device.connection is not None:
                device.connection.end_stall()

    async def stop(self) -> None:
        """Disconnect all devices."""
        await asyncio.gather(*(device.stop() for device in self.devices))

    def final_check(self, devices: Sequence[Device], database: Database[Json]) -> ChannelFinalCheck:
        """Return the checks at the end. devices: those that receive mentions."""
        return ChannelFinalCheck(self.spaces, self.devices, devices, lambda: read_stored(database))


def read_stored(database: Database[Json]) -> StoredChannels:
    """Read what MongoDB has of workspaces."""
    messages: defaultdict[str, list[Json]] = defaultdict(list)
    of_channels = {"$gte": "c_", "$lt": "c`"}
    for row in database[MESSAGES].find({"c": of_channels}).sort([("c", 1), ("s", 1)]):
        kind = "SYSTEM" if row["k"] == "S" else "TEXT"
        message = {"id": f"m_{row['_id']}", "seq": row["s"], "sender": row["u"], "kind": kind}
        messages[row["c"]].append(message | {"mentions": row.get("m", ())})
    members: defaultdict[str, set[str]] = defaultdict(set)
    for row in database[WORKSPACE_MEMBERS].find({}, {"_id": 1}):
        workspace, _, user = row["_id"].partition(" ")
        members[workspace].add(user)
    intervals: defaultdict[str, dict[str, list[tuple[int, int]]]] = defaultdict(dict)
    for row in database[MEMBERS].find({"_id": of_channels}):
        channel, _, user = row["_id"].partition(" ")
        intervals[channel][user] = [(first, last) for first, last in row["i"]]
    return StoredChannels(dict(messages), members, dict(intervals))
