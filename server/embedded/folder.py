"""Data folder of embedded servers: locked by one process at a time, keeps ports between runs."""

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
_LOCK_TIMEOUT_SECONDS = 0.3
"""Time limit for taking the lock: `find_running` holds it for a moment."""


@dataclass(frozen=True, slots=True)
class RunningServers:
    """URLs of the servers of a data folder. None means that the run does not include that server."""

    mongo_url: str | None
    redis_url: str | None


class DataFolder:
    """A folder that this process owns from `open` to `close`. The lock ends if the process is killed."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: IO[str] | None = None

    def open(self) -> None:
        """Create and lock the folder. Raises EmbeddedError."""
        try:
            # Only the owner may read the folder, because it contains messages.
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _take_lock(self.path)
            self._delete_running()
        except OSError as error:
            self.close()
            raise folder_error(self.path, error) from error

    def check_free_space(self, needed_bytes: int) -> None:
        """Raise EmbeddedError if the disk has less free space."""
        try:
            free = shutil.disk_usage(self.path).free
        except OSError as error:
            raise folder_error(self.path, error) from error
        if free < needed_bytes:
            raise disk_full_error(self.path, f"{free // 1_000_000} MB free, {needed_bytes // 1_000_000} MB needed")

    def close(self) -> None:
        """Release the lock. Idempotent."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._delete_running()
            self._lock.close()
            self._lock = None

    def is_new(self) -> bool:
        """Return whether the folder has no data of MongoDB yet."""
        return not (self.path / "mongo" / "WiredTiger").exists()

    def home(self, name: str) -> Path:
        """Return the folder of one server, and create it if necessary. Raises EmbeddedError."""
        home = self.path / name
        try:
            home.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise folder_error(home, error) from error
        return home

    def load_ports(self) -> dict[str, int]:
        """Return the ports of the last run by server. Empty if there was none, or the file is damaged."""
        found = _read_json(self.path / "ports.json")
        return {name: port for name, port in found.items() if type(port) is int and 0 < port < 65536}

    def save_ports(self, ports: dict[str, int]) -> None:
        """Save the ports for the next run. Raises EmbeddedError."""
        self._write_json("ports.json", ports)

    def announce(self, running: RunningServers) -> None:
        """Publish the URLs for `find_running`, until `close`. Raises EmbeddedError."""
        self._write_json("running.json", asdict(running))

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        path = self.path / name
        try:
            # Written to a new file and renamed, so that a full disk or a kill leaves no partial file.
            new = path.with_suffix(".new")
            new.write_text(json.dumps(content))
            new.replace(path)
        except OSError as error:
            raise folder_error(self.path, error) from error

    def _delete_running(self) -> None:
        (self.path / "running.json").unlink(missing_ok=True)


def find_running(path: Path) -> RunningServers | None:
    """Return the servers that another process runs on this folder, or None.

    Raises EmbeddedError while they are starting or stopping.
    """
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


def disk_full_error(path: Path, details: str | None = None) -> EmbeddedError:
    """Return the error for a full disk."""
    suffix = f" ({details})" if details else ""
    return EmbeddedError(f"The disk of {path} is full{suffix}: free some space, or {_ADVICE}.")


def folder_error(path: Path, error: OSError) -> EmbeddedError:
    """Return the error for an OSError in the data folder."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return disk_full_error(path)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return EmbeddedError(f"{path} is not writable ({error.strerror}): change its permissions, or {_ADVICE}.")
        case errno.ENOTDIR | errno.EEXIST:
            return EmbeddedError(f"{path} is not a folder: move the file away, or {_ADVICE}.")
        case _:
            return EmbeddedError(f"{path} cannot be used ({error.strerror or error}): {_ADVICE}.")


def _take_lock(folder: Path) -> IO[str]:
    # Opened for appending: a failed attempt must not delete the owner's pid.
    lock = (folder / "lock").open("a+")
    deadline = time.monotonic() + _LOCK_TIMEOUT_SECONDS
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
            raise EmbeddedError(f"{folder} is in use by {who}: stop it, or {_ADVICE}.") from None
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
