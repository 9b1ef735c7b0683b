"""The load process of `bench.workers`: it names the local ports of its connections."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence

import uvloop

from bench.command_loop import run_command_loop
from bench.subscriber import Subscriber
from bench.suite.clients import SocketClient
from bench.suite.load_worker import Answer, Load


class WorkersLoad(Load):
    """Also returns the local ports of connections, and groups clients."""

    async def ports(self, *, clients: str, listeners: str) -> Answer:
        """Return the local ports of a group of clients, and of a group of listeners."""
        return {
            "clients": [one.local_port for one in self._clients[clients] if isinstance(one, SocketClient)],
            "listeners": [one.local_port for one in self._listeners[listeners] if isinstance(one, Subscriber)],
        }

    async def group(self, *, name: str, groups: Mapping[str, Sequence[int]]) -> Answer:
        """Give clients of a group, by their numbers there, the names of other groups too."""
        for other, numbers in groups.items():
            self._clients[other] = [self._clients[name][number] for number in numbers]
        return {}


async def _main() -> None:
    load = WorkersLoad()
    gc.freeze()
    await run_command_loop(load)


if __name__ == "__main__":
    uvloop.run(_main())
