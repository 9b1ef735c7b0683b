"""`confab serve --workers` while its processes are killed, frozen, stopped and restarted."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import httpx
import orjson
import pytest

from tests.processes import ServerProcess
from tests.waiting import wait_for
from tests.workers.conftest import ServeWorkers
from tests.workers.device import PATIENCE, SEND, Device, connected, send
from tests.workers.processes import (
    child_pids,
    complete_lines,
    is_running,
    log_lines,
    pick_consecutive_ports,
    worker_pids,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class Traffic:
    """Messages from alice to bob, each with the next number, until `stop`."""

    def __init__(self, server: ServerProcess) -> None:
        self.contents: list[str] = []
        """Of the acknowledged messages, in order."""
        self._server = server
        self._stopped = asyncio.Event()
        self._sending = asyncio.create_task(self._send())

    async def stop(self) -> None:
        self._stopped.set()
        await self._sending

    async def until_more(self, count: int) -> None:
        """Wait until a number of further messages is acknowledged."""
        before = len(self.contents)
        await wait_for(lambda: self._sending.done() or len(self.contents) >= before + count, PATIENCE)

    async def _send(self) -> None:
        async with self._server.client("alice", timeout=20) as client:
            while not self._stopped.is_set():
                content = f"message {len(self.contents)}"
                await send(client, "bob", content)
                self.contents.append(content)


async def until_received(devices: list[Device], contents: list[str]) -> None:
    """Wait until all devices have the messages. Then check that each came once, in order."""
    last = contents[-1]
    await wait_for(lambda: all(last in device.contents() for device in devices), PATIENCE)
    for device in devices:
        assert device.contents() == contents


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
async def test_no_send_fails_and_no_event_is_missed_while_workers_are_replaced(
    number: signal.Signals, serve_workers: ServeWorkers
) -> None:
    async with serve_workers(2) as server, connected(server, *["bob"] * 8) as devices:
        traffic = Traffic(server)
        await traffic.until_more(10)
        before = worker_pids(server.pid)
        if number == signal.SIGKILL:
            os.kill(before[0], number)
            await until_logged(server, "server_process_replaced")
        else:
            os.kill(server.pid, number)
            await until_logged(server, "server_processes_replaced")
            assert not set(worker_pids(server.pid)) & set(before)
        await traffic.until_more(10)
        await traffic.stop()
        await until_received(devices, traffic.contents)
        ends = [line["exit_code"] for line in log_lines(server, "server_process_ended")]
        assert ends == ([-number] if number == signal.SIGKILL else [])


async def test_a_replacement_serves_metrics_on_the_port_of_the_dead_worker(serve_workers: ServeWorkers) -> None:
    port = pick_consecutive_ports(2)
    async with serve_workers(2, metrics_port=str(port)) as server, httpx.AsyncClient(timeout=PATIENCE) as client:
        taken = {line["port"] for line in log_lines(server, "metrics_served")}
        assert taken == {port, port + 1}
        os.kill(worker_pids(server.pid)[0], signal.SIGKILL)
        await until_logged(server, "metrics_served", 3)
        for number in taken:
            assert "confab_info" in (await client.get(f"http://127.0.0.1:{number}/metrics")).text


async def test_server_processes_shut_down_when_their_supervisor_is_killed(serve_workers: ServeWorkers) -> None:
    async with serve_workers(2) as server, httpx.AsyncClient(timeout=PATIENCE) as client:
        workers = worker_pids(server.pid)
        assert len(workers) == 2
        os.kill(server.pid, signal.SIGKILL)
        await wait_for(lambda: not any(is_running(pid) for pid in workers), PATIENCE)
        assert len(log_lines(server, "supervisor_ended")) == 2
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{server.url}/healthz")


async def test_a_rolling_restart_logs_no_error_and_lines_name_their_process(serve_workers: ServeWorkers) -> None:
    async with serve_workers(2, metrics_port=str(pick_consecutive_ports(2))) as server:
        workers = worker_pids(server.pid)
        assert {line["pid"] for line in log_lines(server, "metrics_served")} == set(workers)
        # systemctl kill sends it to all processes.
        for pid in [*child_pids(server.pid), server.pid]:
            os.kill(pid, signal.SIGHUP)
        await until_logged(server, "server_processes_replaced")
        assert not set(worker_pids(server.pid)) & set(workers)
        levels = {orjson.loads(line)["level"] for line in complete_lines(server)}
        assert levels <= {"info", "warning"}


async def test_options_of_the_command_are_settings_of_the_workers(serve_workers: ServeWorkers) -> None:
    create = 'mutation { createUpload(input: {filename: "a.txt", sizeBytes: 3, conversationId: "%s"}) { url } }'
    async with serve_workers(2) as server, connected(server, "alice", "bob") as (alice, _):
        message = (await alice.ask(SEND, input={"toUserId": "bob", "content": "hello"}))["message"]
        upload = await alice.ask(create % message["conversationId"])
        assert upload["url"].startswith(f"{server.url}/files/")


async def until_logged(server: ServerProcess, event: str, count: int = 1) -> None:
    await wait_for(lambda: len(log_lines(server, event)) >= count, PATIENCE)
