"""`confab work`: the workers in a process without HTTP."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import httpx

from server.embedded import RunningServers, ports
from tests.processes import ROOT, command_environment

PATIENCE = 120.0
"""Seconds in which a process starts or ends on a busy machine."""


def wait_for_metrics(port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if "confab_info" in httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("the worker serves no metrics")


def test_a_worker_serves_metrics_and_ends_after_a_signal(
    database_servers: RunningServers, mongo_database_name: str
) -> None:
    port = ports.pick_free()
    environment = command_environment(
        database_servers, mongo_database_name, {"metrics_port": str(port), "workers": "false"}
    )
    # It checks no tokens.
    del environment["CONFAB_JWT_SECRET"]
    with subprocess.Popen(
        [sys.executable, "-m", "server.cli", "work"], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_for_metrics(port)
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "worker_started" in log and "worker_stopped" in log
