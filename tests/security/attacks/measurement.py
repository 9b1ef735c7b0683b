"""Memory, open files and CPU time of the server during an attack, and percentiles of the bystander."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.meter import cpu_seconds

_INTERVAL_SECONDS = 0.1
_PAGE = 4096 / 1e6


@dataclass(frozen=True, slots=True)
class Use:
    """Resources of a process at one moment."""

    mb: float
    files: int
    cpu: float

    @classmethod
    def of(cls, pid: int) -> Use:
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return cls(resident * _PAGE, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()), cpu_seconds(pid))


@dataclass
class Watch:
    """The use of a process before a block, the highest values meanwhile, and the use after it."""

    before: Use
    peak_mb: float = 0.0
    peak_files: int = 0
    after: Use = field(default_factory=lambda: Use(0.0, 0, 0.0))

    @property
    def cpu(self) -> float:
        return self.after.cpu - self.before.cpu


@asynccontextmanager
async def watching(pid: int, kept_mb: float, settle_seconds: float) -> AsyncIterator[Watch]:
    """Watch a process. After the block, waits until it keeps at most `kept_mb` more than before, or some seconds.

    Raises OSError if the process has ended.
    """
    watch = Watch(Use.of(pid))

    async def sample() -> None:
        while True:
            use = Use.of(pid)
            watch.peak_mb, watch.peak_files = max(watch.peak_mb, use.mb), max(watch.peak_files, use.files)
            await asyncio.sleep(_INTERVAL_SECONDS)

    sampling = asyncio.create_task(sample())
    try:
        yield watch
        waited = 0.0
        while Use.of(pid).mb > watch.before.mb + kept_mb and waited < settle_seconds:
            await asyncio.sleep(_INTERVAL_SECONDS)
            waited += _INTERVAL_SECONDS
        watch.after = Use.of(pid)
    finally:
        sampling.cancel()


def percentile(samples: Iterable[float], share: float) -> float:
    """Return the sample that this share of the samples does not exceed, 0.0 without samples."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
