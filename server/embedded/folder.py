"""The data folder of the embedded servers: one owner at a time, and what it remembers from run to run."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from server.embedded.errors import EmbeddedError

_ADVICE = "choose another folder with --data-dir"
_LOCK_PATIENCE = 0.3
"""Seconds to try for the lock: `find_running` holds it for a moment."""


@dataclass(frozen=True, slots=True)
class RunningServers:
    """Where the servers of a data folder can be reached. None: not among the embedded ones of that run."""

    mongo_url: str | None
    redis_url: str | None


class DataFolder:
    """A folder that is ours from `open` to `close`, even if this process is killed in between."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: IO[str] | None = None

    def open(self) -> None:
        """Make the folder and lock it. Raises EmbeddedError."""
        try:
            # Messages lie in here: nobody else's business.
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _take_lock(self.path)
            self._forget_running()
        except OSError as error:
            self.close()
            raise folder_error(self.path, error) from error

    def check_room(self, needed_bytes: int) -> None:
        """Raises EmbeddedError if the disk has less than this left."""
        try:
            free = shutil.disk_usage(self.path).free
        except OSError as error:
            raise folder_error(self.path, error) from error
        if free < needed_bytes:
            raise full_disk(self.path, f"{free // 1_000_000} MB free, {needed_bytes // 1_000_000} MB needed")

    def close(self) -> None:
        """Let the next one in. Safe to call twice."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._forget_running()
            self._lock.close()
            self._lock = None

    def is_new(self) -> bool:
        """Whether no server has put data here yet."""
        return not (self.path / "mongo" / "WiredTiger").exists()

    def home(self, name: str) -> Path:
        """A server's own folder, made if it is missing. Raises EmbeddedError."""
        home = self.path / name
        try:
            home.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise folder_error(home, error) from error
        return home

    def recall_ports(self) -> dict[str, int]:
        """Ports of the last run by server. Empty if there was none, or what is there is damaged."""
        found = _read_json(self.path / "ports.json")
        return {name: port for name, port in found.items() if type(port) is int and 0 < port < 65536}

    def remember_ports(self, ports: dict[str, int]) -> None:
        """Raises EmbeddedError."""
        self._write_json("ports.json", ports)

    def announce(self, running: RunningServers) -> None:
        """Let other processes find the servers, until `close`. Raises EmbeddedError."""
        self._write_json("running.json", asdict(running))

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        path = self.path / name
        try:
            # Written aside and renamed, so that a full disk or a kill leaves no half of it.
            aside = path.with_suffix(".new")
            aside.write_text(json.dumps(content))
            aside.replace(path)
        except OSError as error:
            raise folder_error(self.path, error) from error

    def _forget_running(self) -> None:
        (self.path / "running.json").unlink(missing_ok=True)


def find_running(path: Path) -> RunningServers | None:
    """The servers that another process runs on this folder. Raises EmbeddedError while they start."""
    try:
        with (path / "lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found = _read_json(path / "running.json")
            else:
                return None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise folder_error(path, error) from error
    if not found:
        raise EmbeddedError(f"The servers on {path} are starting or stopping: try again in a moment.")
    return RunningServers(mongo_url=found.get("mongo_url"), redis_url=found.get("redis_url"))


def full_disk(path: Path, details: str | None = None) -> EmbeddedError:
    """The error for a disk without room."""
    told = f" ({details})" if details else ""
    return EmbeddedError(f"The disk that holds {path} is full{told}: free some room, or {_ADVICE}.")


def folder_error(path: Path, error: OSError) -> EmbeddedError:
    """What an OSError met in the data folder means for the person who chose it."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return full_disk(path)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return EmbeddedError(f"{path} cannot be written to ({error.strerror}): make it yours, or {_ADVICE}.")
        case errno.ENOTDIR | errno.EEXIST:
            return EmbeddedError(f"{path} is not a folder: move what is there away, or {_ADVICE}.")
        case _:
            return EmbeddedError(f"{path} cannot be used ({error.strerror or error}): {_ADVICE}.")


def _take_lock(folder: Path) -> IO[str]:
    # Opened for appending: the owner's pid in it has to survive those who only try.
    lock = (folder / "lock").open("a+")
    deadline = time.monotonic() + _LOCK_PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            lock.seek(0)
            owner = lock.read().strip()
            lock.close()
            who = f"another Confab (process {owner})" if owner else "another Confab"
            raise EmbeddedError(f"{folder} is in use by {who}: stop that one, or {_ADVICE}.") from None
        except OSError:
            lock.close()
            raise
        break
    try:
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
    except OSError:
        lock.close()
        raise
    return lock


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
