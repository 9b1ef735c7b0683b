"""The supervisor of worker processes: replacing, pausing, restarting, stopping."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from server.process.supervisor import Supervisor, Target, Timing
from tests.waiting import wait_for
from tests.workers.plain_workers import FAILURE, serve, serve_in_spite_of_sigterm

PATIENCE = 60.0
QUICK = Timing(stop=30.0, first_pause=0.01, longest_pause=0.04)


def pids(supervisor: Supervisor) -> list[int]:
    return [worker.pid for worker in supervisor.workers]


async def until(check: Any) -> None:
    await wait_for(check, PATIENCE)


def serving(supervisor: Supervisor, count: int) -> bool:
    return len(supervisor.workers) == count and all(worker.is_ready for worker in supervisor.workers)


def blocked_signals(pid: int) -> set[int]:
    """Return the signals that a process does not get. Reads /proc."""
    (mask,) = re.findall(r"^SigBlk:\s+(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return {number for number in range(1, 65) if int(mask, 16) & 1 << (number - 1)}


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no file or socket, so that it can start no process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@asynccontextmanager
async def supervised(target: Target, count: int = 2, timing: Timing = QUICK) -> AsyncIterator[Supervisor]:
    """Run workers for the duration of the block, which begins when all serve."""
    ready = asyncio.Event()
    supervisor = Supervisor(target, count, timing, ready.set)
    running = asyncio.create_task(supervisor.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await ready.wait()
        yield supervisor
    finally:
        supervisor.stop()
        async with asyncio.timeout(PATIENCE):
            assert await running
        assert supervisor.workers == []


async def test_a_killed_worker_is_replaced_and_the_others_go_on(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with supervised(partial(serve, tmp_path)) as supervisor:
            first, second = pids(supervisor)
            os.kill(first, signal.SIGKILL)
            await until(lambda: first not in pids(supervisor) and serving(supervisor, 2))
            assert pids(supervisor)[0] == second
    (end,) = [line for line in logs if line["event"] == "server_process_ended"]
    assert (end["pid"], end["exit_code"], end["replaced_in_seconds"]) == (first, -signal.SIGKILL, 0.01)


async def test_pauses_grow_while_replacements_fail_at_their_start(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with supervised(partial(serve, tmp_path)) as supervisor:
            first, second = pids(supervisor)
            (tmp_path / "broken").touch()
            os.kill(first, signal.SIGKILL)
            await until(lambda: [line["event"] for line in logs].count("server_process_ended") >= 5)
            assert second in pids(supervisor)
            (tmp_path / "broken").unlink()
            await until(lambda: serving(supervisor, 2))
    ends = [line for line in logs if line["event"] == "server_process_ended"]
    assert [line["replaced_in_seconds"] for line in ends[:5]] == [0.01, 0.02, 0.04, 0.04, 0.04]
    assert {line["exit_code"] for line in ends[1:]} == {FAILURE}


async def test_a_worker_that_ran_for_long_is_replaced_without_a_pause(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with supervised(partial(serve, tmp_path), timing=Timing(stop=30.0, stable=0.0)) as supervisor:
            first, _ = pids(supervisor)
            os.kill(first, signal.SIGKILL)
            await until(lambda: first not in pids(supervisor) and serving(supervisor, 2))
    assert [line["replaced_in_seconds"] for line in logs if line["event"] == "server_process_ended"] == [0.0]


async def test_stopping_does_not_wait_for_the_end_of_a_pause(tmp_path: Path) -> None:
    timing = Timing(stop=30.0, first_pause=3600.0, longest_pause=3600.0)
    with capture_logs() as logs:
        async with supervised(partial(serve, tmp_path), timing=timing) as supervisor:
            os.kill(pids(supervisor)[0], signal.SIGKILL)
            await until(lambda: "server_process_ended" in [line["event"] for line in logs])
    assert len((tmp_path / "started").read_text().split()) == 2


async def test_the_first_failure_before_anything_served_stops_everything(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    supervisor = Supervisor(partial(serve, tmp_path), 3, QUICK, lambda: None)
    with capture_logs() as logs:
        async with asyncio.timeout(PATIENCE):
            assert not await supervisor.run()
    assert supervisor.workers == []
    assert [line["event"] for line in logs] == ["server_process_ended"]
    assert len((tmp_path / "started").read_text().split()) <= 3


async def test_a_worker_whose_event_loop_does_not_run_is_replaced(tmp_path: Path) -> None:
    timing = Timing(stop=30.0, first_pause=0.01, silence=10.0)
    with capture_logs() as logs:
        async with supervised(partial(serve, tmp_path), timing=timing) as supervisor:
            first, _ = pids(supervisor)
            os.kill(first, signal.SIGSTOP)
            await until(lambda: first not in pids(supervisor) and serving(supervisor, 2))
    assert [line["pid"] for line in logs if line["event"] == "server_process_killed"] == [first]


async def test_a_worker_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    with capture_logs() as logs:
        target = partial(serve_in_spite_of_sigterm, tmp_path)
        async with supervised(target, count=1, timing=Timing(stop=0.3)) as supervisor:
            (worker,) = pids(supervisor)
    assert [(line["event"], line["pid"]) for line in logs] == [("server_process_killed", worker)]


async def test_a_restart_replaces_every_worker_and_always_leaves_enough(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with supervised(partial(serve, tmp_path)) as supervisor:
            before = pids(supervisor)
            supervisor.restart()
            # It is under way already.
            supervisor.restart()
            fewest = 2

            def is_over() -> bool:
                nonlocal fewest
                fewest = min(fewest, sum(worker.is_ready for worker in supervisor.workers))
                return "server_processes_replaced" in [line["event"] for line in logs]

            await until(is_over)
            assert fewest == 2
            assert not set(pids(supervisor)) & set(before)
            assert serving(supervisor, 2)
    assert [line["pid"] for line in logs if line["event"] == "server_process_replaced"] == before
    assert len((tmp_path / "started").read_text().split()) == 4


async def test_a_restart_whose_replacement_fails_leaves_the_workers(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with supervised(partial(serve, tmp_path)) as supervisor:
            before = pids(supervisor)
            (tmp_path / "broken").touch()
            for number in range(1, 9):
                supervisor.restart()
                await until(lambda: [line["event"] for line in logs].count("restart_stopped") == number)  # noqa: B023
                await until(lambda: serving(supervisor, 2))
                assert pids(supervisor) == before
            # No failed replacement was replaced.
            assert len((tmp_path / "started").read_text().split()) == 2 + 8
            (tmp_path / "broken").unlink()
            supervisor.restart()
            await until(lambda: "server_processes_replaced" in [line["event"] for line in logs])
            assert not set(pids(supervisor)) & set(before)


async def test_a_worker_that_dies_during_a_restart_is_replaced_once(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with supervised(partial(serve, tmp_path)) as supervisor:
            before = pids(supervisor)
            (tmp_path / "slow").touch()
            supervisor.restart()
            await until(lambda: len(supervisor.workers) == 3)
            os.kill(before[0], signal.SIGKILL)
            await until(lambda: before[0] not in pids(supervisor))
            (tmp_path / "slow").unlink()
            await until(
                lambda: "server_processes_replaced" in [line["event"] for line in logs] and serving(supervisor, 2)
            )
            assert not set(pids(supervisor)) & set(before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_during_a_restart_stops_everything(tmp_path: Path, number: signal.Signals) -> None:
    ready = asyncio.Event()
    supervisor = Supervisor(partial(serve, tmp_path), 2, QUICK, ready.set)
    running = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(PATIENCE):
        await ready.wait()
        (tmp_path / "slow").touch()
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: len(supervisor.workers) == 3)
        os.kill(os.getpid(), number)
        assert await running
    assert supervisor.workers == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_workers_do_not_get_signals_for_the_supervisor(tmp_path: Path) -> None:
    async with supervised(partial(serve, tmp_path)) as supervisor:
        for pid in pids(supervisor):
            assert {signal.SIGINT, signal.SIGHUP} <= blocked_signals(pid)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, set()).isdisjoint({signal.SIGINT, signal.SIGHUP})


async def test_the_others_go_on_while_no_process_can_be_started(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with supervised(partial(serve, tmp_path)) as supervisor:
            first, second = pids(supervisor)
            with no_more_files():
                supervisor.restart()
                await until(lambda: "restart_stopped" in [line["event"] for line in logs])
                assert pids(supervisor) == [first, second]
                os.kill(first, signal.SIGKILL)
                await until(lambda: [line["event"] for line in logs].count("server_process_not_started") >= 4)
                assert pids(supervisor) == [second]
            await until(lambda: serving(supervisor, 2))
            assert second in pids(supervisor)


async def test_a_first_start_without_processes_fails(tmp_path: Path) -> None:
    supervisor = Supervisor(partial(serve, tmp_path), 2, QUICK, lambda: None)
    with capture_logs() as logs, no_more_files():
        async with asyncio.timeout(PATIENCE):
            assert not await supervisor.run()
    assert [line["event"] for line in logs] == ["server_process_not_started"]
