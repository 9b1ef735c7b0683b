"""The memory of processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory in bytes. pss: shared pages counted in part."""

    rss: int
    pss: int


def memory(pid: int) -> Memory:
    """Return the present memory of a process (Linux)."""
    sizes = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        sizes[name] = 1024 * int(rest.split()[0])
    return Memory(sizes["Rss"], sizes["Pss"])
