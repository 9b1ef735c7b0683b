"""Keeps a number of worker processes running: starts, watches, replaces and stops them.

All workers accept connections from one listening socket. A connection that waits for a worker which ends is accepted by
another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker

import structlog

ALIVE, READY = b".", b"r"
"""Reports of a worker: its event loop runs; it accepts connections, and its databases have answered."""

_spawn = multiprocessing.get_context("spawn")

_POLL_SECONDS = 0.1
"""Interval at which the supervisor looks at its workers."""

Target = Callable[[socket.socket], None]
"""The work of a worker process, with its connection to the supervisor as argument. It must be picklable."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """Times in seconds."""

    stop: float
    """From SIGTERM until a worker that has not ended is killed."""
    silence: float = 30.0
    """A worker that reports nothing for this time is killed: its event loop does not run."""
    start: float = 180.0
    """The same for a worker that has not served yet: loading code takes long on a busy machine. A rolling restart waits
    this long until a replacement serves."""
    stable: float = 60.0
    """A worker that ended after this time or later is replaced at once."""
    first_pause: float = 1.0
    longest_pause: float = 30.0
    """Pauses before a worker that ended early is replaced. Each is twice as long as the one before."""


class Worker:
    """One worker process."""

    def __init__(self, target: Target, timing: Timing, early_ends: int, *, is_needed: bool) -> None:
        """Start the process. `early_ends`: how many of its predecessors in a row ended early.

        Raises OSError if the system gives no process, memory or file descriptors.
        """
        self.early_ends = early_ends
        self.is_ready = False
        self.is_needed = is_needed
        """True if another one has to be started when it ends."""
        self._timing = timing
        self._reports, for_worker = socket.socketpair()
        self._reports.setblocking(False)
        self._process = _spawn.Process(target=target, args=(for_worker,))
        try:
            with for_worker, _signals_of_supervisor_blocked():
                self._process.start()
        except OSError:
            self._reports.close()
            raise
        self._started = self._heard = time.monotonic()
        self._stopped: float | None = None
        self._ended = asyncio.Event()

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def age(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal. None while the process runs."""
        return self._process.exitcode

    def stop(self) -> None:
        """Ask the process to end."""
        self.is_needed = False
        if self._stopped is None and self.exit_code is None:
            self._stopped = time.monotonic()
            self._process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    async def watch(self) -> None:
        """Follow the process until it ends. Kill it if it does not report, or does not end when it should."""
        while self.exit_code is None:
            self._read_reports()
            reason = self._reason_to_kill()
            if reason is not None:
                log.error("server_process_killed", pid=self.pid, reason=reason)
                self.kill()
                await asyncio.to_thread(self._process.join)
            else:
                await asyncio.sleep(_POLL_SECONDS)
        self._reports.close()
        self._ended.set()

    async def until_ended(self) -> None:
        """Wait until `watch` has seen the end."""
        await self._ended.wait()

    async def until_ready(self, stopping: asyncio.Event) -> bool:
        """Wait until the process serves. Returns False if it ended, was too slow, or everything is stopping."""
        while not self.is_ready:
            if self.exit_code is not None or stopping.is_set() or self.age > self._timing.start:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    def _read_reports(self) -> None:
        with contextlib.suppress(OSError):
            reports = self._reports.recv(4096)
            if reports:
                self._heard = time.monotonic()
                self.is_ready = self.is_ready or READY in reports

    def _reason_to_kill(self) -> str | None:
        now = time.monotonic()
        if self._stopped is not None and now > self._stopped + self._timing.stop:
            return f"it still ran {self._timing.stop:g} s after SIGTERM"
        silence = self._timing.silence if self.is_ready else self._timing.start
        if self._stopped is None and now > self._heard + silence:
            return f"it reported nothing for {silence:g} s"
        return None


class Supervisor:
    """Runs workers until SIGTERM or SIGINT. SIGHUP replaces them one after the other."""

    def __init__(self, target: Target, count: int, timing: Timing, on_ready: Callable[[], None]) -> None:
        """Start nothing yet. `on_ready` is called once, when all workers of the start serve."""
        self.workers: list[Worker] = []
        """Running workers, the oldest first."""
        self._target = target
        self._count = count
        self._timing = timing
        self._on_ready = on_ready
        self._stopping = asyncio.Event()
        self._has_served = False
        self._failed = False
        self._tasks: asyncio.TaskGroup
        self._restart: asyncio.Task[None] | None = None

    async def run(self) -> bool:
        """Keep workers running until `stop`. Returns False if a worker did not start, or ended before any had served.

        Call it in the main thread. All workers have ended when it returns.
        """
        loop = asyncio.get_running_loop()
        handlers = {signal.SIGINT: self.stop, signal.SIGTERM: self.stop, signal.SIGHUP: self.restart}
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for _ in range(self._count):
                    if self._start() is None:
                        self._fail()
                        break
                self._tasks.create_task(self._announce())
        finally:
            for worker in self.workers:
                worker.kill()
            for number in handlers:
                loop.remove_signal_handler(number)
        return not self._failed

    def stop(self) -> None:
        """Stop all workers at once, and replace none any more."""
        self._stopping.set()
        for worker in self.workers:
            worker.stop()

    def restart(self) -> None:
        """Replace all workers, one after the other. Does nothing while that is under way."""
        if not self._stopping.is_set() and (self._restart is None or self._restart.done()):
            self._restart = self._tasks.create_task(self._replace_all())

    def _fail(self) -> None:
        self._failed = True
        self.stop()

    def _start(self, early_ends: int = 0, *, is_needed: bool = True) -> Worker | None:
        """Start a worker. Returns None, after logging the reason, if the system gives no process."""
        try:
            worker = Worker(self._target, self._timing, early_ends, is_needed=is_needed)
        except OSError as error:
            log.error("server_process_not_started", reason=error.strerror)
            return None
        self.workers.append(worker)
        self._tasks.create_task(self._look_after(worker))
        return worker

    async def _look_after(self, worker: Worker) -> None:
        """Watch a worker, and replace it after an unexpected end."""
        await worker.watch()
        self.workers.remove(worker)
        if not worker.is_needed:
            return
        self._has_served = self._has_served or any(one.is_ready for one in [worker, *self.workers])
        if not self._has_served:
            _log_end(worker)
            self._fail()
            return
        early_ends, pause = 0, 0.0
        if worker.age < self._timing.stable:
            early_ends = worker.early_ends + 1
            pause = min(self._timing.first_pause * 2 ** (early_ends - 1), self._timing.longest_pause)
        _log_end(worker, replaced_in_seconds=pause)
        while not await self._is_stopping_within(pause):
            replacement = self._start(early_ends)
            if replacement is not None:
                _log_replacement(worker, replacement)
                return
            pause = min(max(2 * pause, self._timing.first_pause), self._timing.longest_pause)

    async def _is_stopping_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    async def _announce(self) -> None:
        while sum(worker.is_ready for worker in self.workers) < self._count:
            if self._stopping.is_set():
                return
            await asyncio.sleep(_POLL_SECONDS)
        self._on_ready()

    async def _replace_all(self) -> None:
        for worker in list(self.workers):
            if not worker.is_needed or worker.exit_code is not None:
                continue
            replacement = self._start(is_needed=False)
            if replacement is None:
                log.error("restart_stopped", reason="a process did not start")
                return
            is_ready = await replacement.until_ready(self._stopping)
            if self._stopping.is_set():
                return
            if not is_ready:
                log.error("restart_stopped", pid=replacement.pid, reason="it did not become ready")
                replacement.stop()
                return
            if worker.exit_code is not None:
                # It ended unexpectedly, and has a replacement.
                replacement.stop()
                continue
            replacement.is_needed = True
            worker.stop()
            await worker.until_ended()
            _log_replacement(worker, replacement)
        log.info("server_processes_replaced")


@contextlib.contextmanager
def _signals_of_supervisor_blocked() -> Iterator[None]:
    """Block SIGINT and SIGHUP. A process that is started meanwhile never gets them.

    Ctrl-C, a terminal that is closed and `systemctl kill` signal all processes. Only the supervisor answers: a worker
    that loads code would end with a traceback, and SIGHUP would end all workers at once.
    """
    signals = {signal.SIGINT, signal.SIGHUP}
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        # A process of multiprocessing, which must survive SIGHUP too. Starting it unblocks SIGINT.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _log_end(worker: Worker, **fields: float) -> None:
    log.error(
        "server_process_ended", pid=worker.pid, exit_code=worker.exit_code, age_seconds=round(worker.age, 1), **fields
    )


def _log_replacement(worker: Worker, replacement: Worker) -> None:
    log.info("server_process_replaced", pid=worker.pid, replacement=replacement.pid)
