"""Stops servers that a killed run left behind. They are identified by process id and command line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from enum import Enum, auto
from pathlib import Path

_ENDING_TIMEOUT_SECONDS = 2.0


class _Process(Enum):
    GONE = auto()
    OURS = auto()
    ENDING = auto()
    """Has released its memory and its command line, but possibly not its port."""
    OTHER = auto()


def stop_leftover(pid: int, argument: str, timeout_seconds: float) -> bool:
    """Stop a process that has `argument` in its command line. Returns whether there was one.

    Waits until it has released its port and files. Kills it if it has not ended after `timeout_seconds`.
    """
    started = time.monotonic()
    found = False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # Checked in each iteration: after its end, its id may belong to another process.
        while (state := _inspect(pid, argument)) in {_Process.OURS, _Process.ENDING}:
            elapsed = time.monotonic() - started
            if state is _Process.OURS:
                if not found:
                    os.kill(pid, signal.SIGTERM)
                    found = True
                elif elapsed > timeout_seconds:
                    os.kill(pid, signal.SIGKILL)
            elif elapsed > timeout_seconds + _ENDING_TIMEOUT_SECONDS:
                break
            time.sleep(0.02)
    return found


def _inspect(pid: int, argument: str) -> _Process:
    proc = Path(f"/proc/{pid}")
    if not Path("/proc/self/stat").exists():
        return _inspect_with_ps(pid, argument)
    try:
        arguments = (proc / "cmdline").read_bytes().decode(errors="replace").split("\0")
        if argument in arguments:
            return _Process.OURS
        if arguments != [""]:
            return _Process.OTHER
        # The process name before the state may contain parentheses.
        state = (proc / "stat").read_text().rpartition(")")[2].split()[0]
        threads = len(list((proc / "task").iterdir()))
    except OSError:
        return _Process.GONE
    # A zombie has released everything, unless it has other threads: these still hold its files.
    return _Process.GONE if state == "Z" and threads == 1 else _Process.ENDING


def _inspect_with_ps(pid: int, argument: str) -> _Process:
    listed = subprocess.run(
        ["ps", "-ww", "-o", "state=,command=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    state, _, command = listed.strip().partition(" ")
    if not state or state.startswith("Z"):
        return _Process.GONE
    return _Process.OURS if f" {argument} " in f"{command} " else _Process.OTHER
