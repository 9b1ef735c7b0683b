"""One server process that is ours: started, watched, stopped by its own pid."""

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
from server.embedded.failures import explain
from server.embedded.folder import folder_error
from server.embedded.leftovers import stop_leftover

_LARGE_LOG = 16 * 1024 * 1024
_START_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """How to run one kind of server.

    `home` is its data directory and one of the arguments in `command(port)`: so a process is known as ours.
    `make_ready(port, pid)` does the next step towards serving and tells whether the server serves. It says
    False where nobody answers yet, or a process other than `pid` does.
    """

    name: str
    variable: str
    binary: Binary
    home: Path
    command: Callable[[int], list[str]]
    make_ready: Callable[[int, int], bool]
    stop_patience: float
    """Seconds that a clean shutdown may take."""


class ChildProcess:
    """A program that runs on one port, or doesn't at the moment.

    `launcher` has one thread, which forks. For the kernel that *thread* is the parent whose death ends the
    child, so it has to live as long as the server should.
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
        """The running server's, else None."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def launch(self) -> None:
        """Start the process and return at once. Raises EmbeddedError."""
        try:
            self._process = self._launcher.submit(self._fork).result()
            self._pid_file.write_text(str(self._process.pid))
        except OSError as error:
            self.stop()
            raise folder_error(self.program.home.parent, error) from error

    def await_ready(self) -> None:
        """Wait until the server serves. Raises EmbeddedError if it ends before, or takes too long."""
        deadline = time.monotonic() + _START_PATIENCE
        while True:
            self.check()
            pid = self.pid
            if pid is not None and self.program.make_ready(self.port, pid):
                return
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"{self.program.name} does not answer after {_START_PATIENCE:.0f} s: see {self.log}."
                )
            time.sleep(0.02)

    def check(self) -> None:
        """Raises EmbeddedError if the server ended without having been asked to."""
        process = self._process
        exit_code = process.poll() if process is not None else None
        if exit_code is None:
            return
        program = self.program
        raise explain(program.name, program.variable, self.log, self._told(), exit_code, self.port, program.home)

    def signal_stop(self) -> None:
        """Ask the server to shut down, without waiting for it."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self) -> None:
        """Shut the server down cleanly, by force if that takes too long. Fine if it is not running."""
        process = self._process
        if process is None:
            return
        self.signal_stop()
        try:
            process.wait(self.program.stop_patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._gone()

    def kill(self) -> None:
        """End the server as a crash would (SIGKILL)."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            self._gone()

    def stop_leftover(self) -> bool:
        """Stop the server that an earlier, killed run left on the same data. True if there was one."""
        try:
            pid = int(self._pid_file.read_text())
        except (OSError, ValueError):
            return False
        found = stop_leftover(pid, str(self.program.home), self.program.stop_patience)
        self._pid_file.unlink(missing_ok=True)
        return found

    def _fork(self) -> subprocess.Popen[bytes]:
        if self.log.exists() and self.log.stat().st_size > _LARGE_LOG:
            self.log.replace(self.log.with_suffix(".log.old"))
        command = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid())]
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            # A session of its own, so that the terminal's Ctrl-C reaches us alone and we stop it in order.
            return subprocess.Popen(
                command + self.program.command(self.port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.program.home,
                start_new_session=True,
            )

    def _gone(self) -> None:
        self._process = None
        self._pid_file.unlink(missing_ok=True)

    def _told(self) -> str:
        try:
            with self.log.open("rb") as log:
                log.seek(max(self._log_start, self.log.stat().st_size - _LARGE_LOG))
                return log.read().decode(errors="replace")
        except OSError:
            return ""
