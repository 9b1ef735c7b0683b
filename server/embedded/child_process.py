"""Starts, watches and stops one server process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from server.embedded import launch
from server.embedded.binaries import Binary
from server.embedded.errors import EmbeddedError
from server.embedded.failures import explain_exit
from server.embedded.folder import folder_error
from server.embedded.leftovers import stop_leftover

_MAX_LOG_BYTES = 16 * 1024 * 1024
_START_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """Describes how to run one kind of server.

    `home` is its data directory. It is also an argument in `command(port)`, which identifies processes of this program.
    `prepare(port, pid)` does the next step of the setup, and returns whether the server is ready. It returns False if
    nothing answers yet, or if another process than `pid` answers.
    """

    name: str
    variable: str
    binary: Binary
    home: Path
    command: Callable[[int], list[str]]
    prepare: Callable[[int, int], bool]
    stop_timeout_seconds: float
    """Time limit of a clean shutdown."""


class ChildProcess:
    """A server program on one port. It may be running or not.

    `launcher` has one thread, which forks. The kernel treats that *thread* as the parent whose death ends the child, so
    the thread has to live as long as the server.
    """

    def __init__(self, program: ServerProgram, port: int, launcher: Executor) -> None:
        self.program = program
        self.port = port
        self.log = program.home.with_suffix(".log")
        self._pid_file = program.home.with_suffix(".pid")
        self._launcher = launcher
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """Process id of the running server, or None."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def launch(self) -> None:
        """Start the process without waiting for it. Raises EmbeddedError."""
        try:
            self._process = self._launcher.submit(self._fork).result()
            self._pid_file.write_text(str(self._process.pid))
        except OSError as error:
            self.stop()
            raise folder_error(self.program.home.parent, error) from error

    def await_ready(self) -> None:
        """Wait until the server is ready. Raises EmbeddedError if it ends before that, or takes too long."""
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while True:
            self.check()
            pid = self.pid
            if pid is not None and self.program.prepare(self.port, pid):
                return
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"{self.program.name} did not answer within {_START_TIMEOUT_SECONDS:.0f} s: see {self.log}."
                )
            time.sleep(0.02)

    def check(self) -> None:
        """Raise EmbeddedError if the server ended unexpectedly."""
        process = self._process
        exit_code = process.poll() if process is not None else None
        if exit_code is None:
            return
        program = self.program
        raise explain_exit(
            program.name, program.variable, self.log, self._read_log(), exit_code, self.port, program.home
        )

    def signal_stop(self) -> None:
        """Tell the server to shut down, without waiting for it."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self) -> None:
        """Shut the server down cleanly, or by force if that takes too long. Does nothing if it is not running."""
        process = self._process
        if process is None:
            return
        self.signal_stop()
        try:
            process.wait(self.program.stop_timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._clear()

    def kill(self) -> None:
        """Kill the server, as a crash would (SIGKILL)."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            self._clear()

    def stop_leftover(self) -> bool:
        """Stop a server that an earlier, killed run left on the same data. Returns whether there was one."""
        try:
            pid = int(self._pid_file.read_text())
        except (OSError, ValueError):
            return False
        found = stop_leftover(pid, str(self.program.home), self.program.stop_timeout_seconds)
        self._pid_file.unlink(missing_ok=True)
        return found

    def _fork(self) -> subprocess.Popen[bytes]:
        if self.log.exists() and self.log.stat().st_size > _MAX_LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.old"))
        command = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid())]
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            # In its own session, so that Ctrl-C in the terminal does not reach it: this process stops it in order.
            return subprocess.Popen(
                command + self.program.command(self.port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.program.home,
                start_new_session=True,
            )

    def _clear(self) -> None:
        self._process = None
        self._pid_file.unlink(missing_ok=True)

    def _read_log(self) -> str:
        try:
            with self.log.open("rb") as log:
                log.seek(max(self._log_start, self.log.stat().st_size - _MAX_LOG_BYTES))
                return log.read().decode(errors="replace")
        except OSError:
            return ""
