"""A server with several processes under load."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.load_process import LoadProcess
from bench.memory import memory
from bench.meter import cpu_seconds
from bench.selections import MESSAGE_EVENTS
from bench.suite.queries import SEND
from bench.suite.request_rates import STAMP_PLACE
from server.embedded import EmbeddedServers
from tests.processes import ServerProcess, token
from tests.workers.processes import connection_counts, worker_of_ports, worker_pids

PAIRS = 120
"""Number of senders, each with a receiver of its own. All of them are connected."""

SENDERS = [f"from{number:03}" for number in range(PAIRS)]
RECEIVERS = [f"to{number:03}" for number in range(PAIRS)]
PARTS = ("server", "mongo", "redis")

_TEXT = f"What one says to another, as long as such a line usually is, {STAMP_PLACE}"


@dataclass
class Step:
    """Result of a load for some seconds. Times in ms, CPU in µs per message."""

    rate: float
    """Messages per second that are sent; 0: as many as are answered."""
    done: float
    """Messages per second that were answered."""
    p50: float
    p99: float
    heard_p50: float
    heard_p99: float
    cpu: dict[str, float]
    failures: int


@dataclass
class Served:
    """A server, its clients in the load process, and what was measured."""

    workers: int
    """Number of processes that serve."""
    server: ServerProcess
    databases: EmbeddedServers
    load: LoadProcess
    idle: dict[str, float] = field(default_factory=dict)
    """CPU seconds per second while no client does anything."""
    steps: list[list[Step]] = field(default_factory=list)
    """By turn."""
    _groups: dict[str, list[int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"workers{self.workers}"

    def pids(self) -> list[int]:
        """Return the processes that serve."""
        return worker_pids(self.server.pid) or [self.server.pid]

    async def connect(self) -> None:
        """Connect all senders and receivers, over WebSockets."""
        tokens = [f"Bearer {token(user)}" for user in SENDERS]
        await self.load.ask("connect", name=self.name, port=self.server.port, transport="ws", tokens=tokens)
        tokens = [f"Bearer {token(user)}" for user in RECEIVERS]
        given = {"port": self.server.port, "tokens": tokens, "subscriptions": [MESSAGE_EVENTS]}
        await self.load.ask("listen", name=self.name, **given)

    def spread(self) -> list[int]:
        """Return the number of connections of each process."""
        return connection_counts(self.pids(), self.server.port)

    async def group_pairs(self) -> dict[str, int]:
        """Group pairs with both connections in one process as `same`, others as `different`. Return their numbers."""
        ports = await self.load.ask("ports", clients=self.name, listeners=self.name)
        held = worker_of_ports(self.pids(), self.server.port)
        ends = zip(ports["clients"], ports["listeners"], strict=True)
        same = [held[sender] == held[receiver] for sender, receiver in ends]
        groups = {kind: [number for number, one in enumerate(same) if one is wanted] for kind, wanted in _KINDS.items()}
        self._groups = groups
        await self.load.ask("group", name=self.name, groups=groups)
        return {kind: len(numbers) for kind, numbers in groups.items()}

    async def measure(self, rate: float, seconds: float, group: str = "") -> Step:
        """Send messages at a rate, or with rate 0 as fast as they are answered. group: `same` or `different` pairs."""
        numbers: Sequence[int] = self._groups[group] if group else range(PAIRS)
        how = {"how": "open", "rate": rate} if rate else {"how": "closed", "in_flight": len(numbers) // 2}
        before, began = self._cpu(), time.perf_counter()
        asked = await self.load.ask(
            "drive", name=group or self.name, bodies=[[_body(number)] for number in numbers], seconds=seconds, **how
        )
        await self.load.ask("wait", name=self.name, count=asked["count"] - asked["failures"])
        elapsed, now = time.perf_counter() - began, self._cpu()
        heard = await self.load.ask("report", name=self.name)
        cpu = {part: max(0.0, now[part] - before[part] - self.idle.get(part, 0.0) * elapsed) for part in PARTS}
        return Step(
            rate,
            asked["count"] / asked["elapsed"],
            1000 * asked["p50"],
            1000 * asked["p99"],
            1000 * heard["p50"],
            1000 * heard["p99"],
            {part: 1e6 * used / max(1, asked["count"]) for part, used in cpu.items()},
            asked["failures"],
        )

    def cpu_of_parts(self) -> dict[str, float]:
        """Return the CPU seconds of the server's processes together, and of the databases."""
        return self._cpu()

    def memory(self) -> list[float]:
        """Return the megabytes of each process, shared pages counted in part. The supervisor is the last."""
        pids = self.pids()
        return [memory(pid).pss / 1e6 for pid in (*pids, *({self.server.pid} - set(pids)))]

    def _cpu(self) -> dict[str, float]:
        assert self.databases.mongo_pid is not None and self.databases.redis_pid is not None
        return {
            "server": sum(cpu_seconds(pid) for pid in {*self.pids(), self.server.pid}),
            "mongo": cpu_seconds(self.databases.mongo_pid),
            "redis": cpu_seconds(self.databases.redis_pid),
        }


_KINDS: dict[str, Any] = {"same": True, "different": False}


def _body(number: int) -> str:
    return json.dumps({"query": SEND, "variables": {"input": {"toUserId": RECEIVERS[number], "content": _TEXT}}})
