"""The cost of operations: elapsed time, CPU time of each process, bytes of the answer."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_AFTERMATH_SECONDS = 0.03
"""Time after an answer in which the work it causes still counts."""

_CALM_SECONDS = 0.15
"""Time in which the processes must be almost idle before the work caused by an operation counts as done."""

_CALM_SHARE = 0.03
"""The share of one CPU, beyond their idle use, that counts as almost idle."""

_LONGEST_SECONDS = 30.0
"""No further repetition of one measurement after this time."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians of one operation."""

    seconds: float
    cpu: Mapping[str, float]
    """Seconds, by process."""
    size: int
    times: int


class Meter:
    """Measures operations on processes that do nothing else meanwhile."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._idle = dict.fromkeys(pids, 0.0)

    async def learn_idle(self, seconds: float = 3.0) -> None:
        """Measure the CPU time of the idle processes. It is subtracted from then on."""
        before = self._cpu()
        await asyncio.sleep(seconds)
        after = self._cpu()
        self._idle = {name: (after[name] - before[name]) / seconds for name in self._pids}

    async def measure(
        self,
        operation: Callable[[int], Awaitable[int]],
        times: int,
        *,
        before_each: Callable[[int], Awaitable[object]] | None = None,
        until_calm: bool = False,
    ) -> Cost:
        """Measure an operation, a function that takes its number and returns the bytes of the answer.

        until_calm: all work that it causes counts, however long it takes.
        """
        seconds: list[float] = []
        cpu: dict[str, list[float]] = {name: [] for name in self._pids}
        sizes: list[int] = []
        began = time.monotonic()
        for number in range(times):
            if before_each is not None:
                await before_each(number)
                await self._aftermath(until_calm)
            used, start = self._cpu(), time.perf_counter()
            sizes.append(await operation(number))
            seconds.append(time.perf_counter() - start)
            await self._aftermath(until_calm)
            elapsed, now = time.perf_counter() - start, self._cpu()
            for name in self._pids:
                cpu[name].append(max(0.0, now[name] - used[name] - self._idle[name] * elapsed))
            if time.monotonic() - began > _LONGEST_SECONDS:
                break
        return Cost(
            statistics.median(seconds),
            {name: statistics.median(values) for name, values in cpu.items()},
            round(statistics.median(sizes)),
            len(seconds),
        )

    async def _aftermath(self, until_calm: bool) -> None:
        await asyncio.sleep(_AFTERMATH_SECONDS)
        if until_calm:
            await self.wait_until_idle()

    async def wait_until_idle(self) -> None:
        """Wait until the processes are almost idle."""
        calm = False
        while not calm:
            before, start = sum(self._cpu().values()), time.perf_counter()
            await asyncio.sleep(_CALM_SECONDS)
            spent, elapsed = sum(self._cpu().values()) - before, time.perf_counter() - start
            calm = spent < (_CALM_SHARE + sum(self._idle.values())) * elapsed

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self._pids.items()}


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of all threads of a process."""
    try:
        # The process's CPU clock (clock_getcpuclockid(3)) has nanoseconds; /proc has hundredths of a second.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
