"""The code that the processes of `confab serve --workers` load. Reads /proc: Linux only."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.workers.conftest import ServeWorkers
from tests.workers.processes import worker_pids

COMPILED = {"bson", "hiredis", "pymongo", "uvloop"}
"""Packages with compiled parts that a server process uses."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def loaded(pid: int) -> set[str]:
    """Return the packages of COMPILED whose compiled parts a process has loaded."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return {package for package in COMPILED if f"site-packages/{package}/" in maps}


async def test_the_supervisor_loads_neither_drivers_nor_the_application(serve_workers: ServeWorkers) -> None:
    async with serve_workers(2) as server:
        for worker in worker_pids(server.pid):
            assert loaded(worker) == COMPILED
        assert loaded(server.pid) == set()
