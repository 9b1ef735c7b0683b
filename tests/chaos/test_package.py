"""The package @confab/client while servers and databases fail: in the end all devices show what the server has (I5)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.faults.databases import FaultyDatabases
from tests.chaos.faults.injection import FaultPlan, Faults
from tests.chaos.faults.servers import FaultyServers
from tests.chaos.judges.history import History
from tests.chaos.tally import RunTally
from tests.clients.programs import VITE, Workshop, build_package, missing
from tests.server.tokens import SECRET

SECONDS = float(os.environ.get("CONFAB_PACKAGE_CHAOS_SECONDS", "60"))
SERVERS = 2
SCRIPT = (
    ("kill a server", 0.5),
    ("restart Redis, from an older snapshot", 0.3),
    ("step down the primary", 1.0),
    ("flush Redis", 0.1),
    ("stop a server", 0.5),
    ("lose keys in Redis", 0.1),
)

_MISSING = missing() or (None if VITE.is_file() else "needs the packages of web/package.json: make web")
pytestmark = pytest.mark.skipif(_MISSING is not None, reason=str(_MISSING))


@pytest.fixture(scope="module")
def databases() -> Iterator[FaultyDatabases]:
    with tempfile.TemporaryDirectory(prefix="confab-chaos-") as folder, FaultyDatabases(Path(folder), SERVERS) as found:
        yield found


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package(tmp_path_factory.mktemp("client"))


async def _run(databases: FaultyDatabases, bundle: Path, folder: Path, *, seed: int, seconds: float | None) -> None:
    """Run the program of the clients with faults: those of the script, or random ones for some seconds."""
    workshop = Workshop(folder)
    (folder / "web" / "client").mkdir()
    shutil.copy(bundle, folder / "web" / "client" / "index.mjs")
    database = f"chaos_package_{seed}_{time.time_ns()}"
    tally, history = RunTally(), History(folder / "history.jsonl")
    servers = FaultyServers(databases.addresses, folder, database, [0.0] * SERVERS, tally)
    faults = Faults(servers, databases, ["ann", "ben", "carol", "dave"], f"{database}:", history, seed)
    try:
        await servers.start()
        environment = {"CONFAB_PORTS": ",".join(str(each.port) for each in servers.processes), "CONFAB_SEED": str(seed)}
        program = await workshop.start("package_chaos", servers.processes[0].url, SECRET, environment)
        try:
            assert program.stdout is not None and program.stdin is not None
            assert (await asyncio.wait_for(program.stdout.readline(), 120)).strip() == b"ready"
            rng = random.Random(seed)
            if seconds is None:
                for name, duration in SCRIPT:
                    await asyncio.sleep(0.7)
                    await faults.inject(name, rng, duration)
            else:
                await faults.run(time.monotonic() + seconds, FaultPlan(rest=4.0, reach=0.5))
            program.stdin.write(b"end\n")
            lines = []
            async with asyncio.timeout(900):
                async for line in program.stdout:
                    lines.append(line.decode())
                    print(lines[-1], end="")
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
        report = json.loads(lines[-1])
        assert report["problems"] == [], "\n".join(report["problems"])
        assert report["figures"]["sent"] > 20
        assert report["figures"]["compared"] > 100
    finally:
        await servers.stop()
        history.close()


async def test_devices_show_what_the_server_has_after_one_fault_of_each_kind(
    databases: FaultyDatabases, bundle: Path, tmp_path: Path
) -> None:
    await _run(databases, bundle, tmp_path, seed=1, seconds=None)


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
async def test_devices_show_what_the_server_has_after_a_minute_of_faults(
    databases: FaultyDatabases, bundle: Path, tmp_path: Path, seed: int
) -> None:
    await _run(databases, bundle, tmp_path, seed=seed, seconds=SECONDS)
