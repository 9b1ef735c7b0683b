"""Which processes run on which cores."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cores:
    """Cores of the databases and the load, and those of the servers."""

    others: frozenset[int]
    servers: frozenset[int]

    def __str__(self) -> str:
        if self.others == self.servers:
            return f"databases, load and servers share the cores {_listed(self.others)}"
        return f"databases and load on {_listed(self.others)}; servers on {_listed(self.servers)}"


def divide_cores(*, shared: bool) -> Cores:
    """Divide the cores that this process may use: half for the databases and the load, half for the servers.

    shared: nothing is pinned. With one core there is nothing to divide.
    """
    found = sorted(os.sched_getaffinity(0))
    if shared or len(found) < 2:
        return Cores(frozenset(found), frozenset(found))
    half = len(found) // 2
    return Cores(frozenset(found[:half]), frozenset(found[half:]))


def pin(pids: Iterable[int], cores: frozenset[int]) -> None:
    """Run all threads of processes on the given cores only. Later threads inherit that."""
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            # Threads come and go.
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cores)


def _listed(cores: frozenset[int]) -> str:
    return ("core " if len(cores) == 1 else "cores ") + ", ".join(map(str, sorted(cores)))
