"""`confab work`: the workers in a process without HTTP."""

from __future__ import annotations

import signal
import subprocess
import sys

import httpx

from server.embedded import RunningServers, ports
from tests.processes import ROOT, command_environment
from tests.protocol.serving import PATIENCE
from tests.waiting import wait_for


def metrics_of(port: int) -> str:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
    except httpx.TransportError:
        return ""


async def test_a_worker_serves_metrics_and_ends_after_a_signal(
    database_servers: RunningServers, mongo_database_name: str
) -> None:
    port = ports.pick_free()
    settings = {"metrics_port": str(port), "workers": "false"}
    environment = command_environment(database_servers, mongo_database_name, settings)
    environment.pop("CONFAB_JWT_SECRET")
    with subprocess.Popen(
        [sys.executable, "-m", "server.cli", "work"], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            await wait_for(lambda: "confab_info" in metrics_of(port), PATIENCE)
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "worker_started" in log and "worker_stopped" in log
