"""Servers that a killed run left behind: found by number, known by their command line, and stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from enum import Enum, auto
from pathlib import Path

_ENDING_PATIENCE = 2.0


class _Process(Enum):
    GONE = auto()
    OURS = auto()
    ENDING = auto()
    """Has given up its memory, and with it its command line, but perhaps not yet its port."""
    STRANGER = auto()


def stop_leftover(pid: int, argument: str, patience: float) -> bool:
    """Stop the process if `argument` is in its command line. True if there was such a one.

    Returns when it has released its port and files: asked politely for `patience` seconds, then by force.
    """
    started = time.monotonic()
    found = False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # Looked at again each time round: once it is gone, its number may be somebody else's.
        while (state := _look_at(pid, argument)) in {_Process.OURS, _Process.ENDING}:
            elapsed = time.monotonic() - started
            if state is _Process.OURS:
                if not found:
                    os.kill(pid, signal.SIGTERM)
                    found = True
                elif elapsed > patience:
                    os.kill(pid, signal.SIGKILL)
            elif elapsed > patience + _ENDING_PATIENCE:
                break
            time.sleep(0.02)
    return found


def _look_at(pid: int, argument: str) -> _Process:
    proc = Path(f"/proc/{pid}")
    if not Path("/proc/self/stat").exists():
        return _look_with_ps(pid, argument)
    try:
        arguments = (proc / "cmdline").read_bytes().decode(errors="replace").split("\0")
        if argument in arguments:
            return _Process.OURS
        if arguments != [""]:
            return _Process.STRANGER
        # The name before it may hold anything, parentheses included.
        state = (proc / "stat").read_text().rpartition(")")[2].split()[0]
        threads = len(list((proc / "task").iterdir()))
    except OSError:
        return _Process.GONE
    # A zombie waits only for its parent to take note; but its other threads, while there are any, hold its files.
    return _Process.GONE if state == "Z" and threads == 1 else _Process.ENDING


def _look_with_ps(pid: int, argument: str) -> _Process:
    listed = subprocess.run(
        ["ps", "-ww", "-o", "state=,command=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    state, _, command = listed.strip().partition(" ")
    if not state or state.startswith("Z"):
        return _Process.GONE
    return _Process.OURS if f" {argument} " in f"{command} " else _Process.STRANGER
