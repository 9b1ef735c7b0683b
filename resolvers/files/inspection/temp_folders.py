"""Folders of temporary files: each is removed with all its contents at the end of its use."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from resolvers.base.errors import Unavailable

_PREFIX = "confab-files-"
_LOCK = "lock"
_MAX_FOLDERS = 32
_WAIT_SECONDS = 5.0
_OWNER_WAIT_SECONDS = 15.0
_MOST_WAITING = 100
"""Uses of one owner that may wait."""
_START_SECONDS = 60.0
"""Age from which a folder without a locked file was left by a process that has died."""


@dataclass(slots=True)
class _Owner:
    """`uses`: those that have a folder or wait for one."""

    uses: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class TempFolders:
    """Gives out folders inside a folder of this process, which holds a lock on it.

    Each owner of files has one at a time, so nobody can use up the folders, or the processes that decode.
    """

    def __init__(
        self,
        parent: Path | None,
        *,
        most: int = _MAX_FOLDERS,
        wait_seconds: float = _WAIT_SECONDS,
        owner_wait_seconds: float = _OWNER_WAIT_SECONDS,
    ) -> None:
        self._parent = parent or Path(tempfile.gettempdir())
        self._places = asyncio.Semaphore(most)
        self._wait_seconds = wait_seconds
        self._owner_wait_seconds = owner_wait_seconds
        self._owners: dict[str, _Owner] = {}
        self._root: Path | None = None
        self.lock: int | None = None
        """The locked file of this process, while it has a folder."""

    async def open(self) -> None:
        """Remove what processes left that have died."""
        await asyncio.to_thread(self._remove_abandoned)

    async def close(self) -> None:
        """Remove all folders."""
        root, self._root = self._root, None
        if root is not None:
            await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    @asynccontextmanager
    async def folder(self, owner: str | None = None) -> AsyncIterator[Path]:
        """Return an empty folder, which only this user can read. It is removed at the end of the block.

        `owner`: the owner of the file that is inspected; None: it has none, and the caller limits their number. Raises
        Unavailable if the owner has, or all have, too many in use for several seconds.
        """
        async with self._turn(owner):
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await self._places.acquire()
            except TimeoutError:
                raise _too_many() from None
            try:
                path = Path(tempfile.mkdtemp(dir=self._find_root()))
                try:
                    yield path
                finally:
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                self._places.release()

    @asynccontextmanager
    async def _turn(self, name: str | None) -> AsyncIterator[None]:
        """Wait for the turn of an owner. Raises Unavailable."""
        if name is None:
            yield
            return
        owner = self._owners.setdefault(name, _Owner())
        if owner.uses > _MOST_WAITING:
            raise _too_many()
        owner.uses += 1
        try:
            try:
                async with asyncio.timeout(self._owner_wait_seconds):
                    await owner.lock.acquire()
            except TimeoutError:
                raise _too_many() from None
            try:
                yield
            finally:
                owner.lock.release()
        finally:
            owner.uses -= 1
            if not owner.uses:
                del self._owners[name]

    def _find_root(self) -> Path:
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._parent))
            self.lock = os.open(self._root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self._root

    def _remove_abandoned(self) -> None:
        for root in self._parent.glob(f"{_PREFIX}*"):
            # Folders of other users cannot be read, and are theirs to remove.
            with suppress(OSError):
                if root.is_symlink() or time.time() - root.stat().st_mtime < _START_SECONDS:
                    continue
                lock = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(root, ignore_errors=True)
                finally:
                    os.close(lock)


def _too_many() -> Unavailable:
    return Unavailable("too many files are being inspected; please try again")
