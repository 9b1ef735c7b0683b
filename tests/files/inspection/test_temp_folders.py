"""Temporary files: removed after their use, with their process, and after its death."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from resolvers.base.errors import Unavailable
from resolvers.files.inspection.temp_folders import TempFolders

LONG_AGO = 1_000_000_000


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def age(folder: Path) -> None:
    os.utime(folder, (LONG_AGO, LONG_AGO))


def fill(folder: Path) -> None:
    (folder / "file").write_bytes(b"content")


async def test_folder_is_removed_with_its_files_also_after_an_error(tmp_path: Path) -> None:
    folders = TempFolders(tmp_path)
    await folders.open()
    assert names(tmp_path) == []
    with pytest.raises(ValueError, match="wrong"):
        async with folders.folder() as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            fill(folder)
            raise ValueError("wrong")
    assert names(folder.parent) == ["lock"]
    await folders.close()
    assert names(tmp_path) == []


async def test_folders_of_a_process_that_has_died_are_removed_at_the_next_start(tmp_path: Path) -> None:
    dead, living, unknown = TempFolders(tmp_path), TempFolders(tmp_path), tmp_path / "another"
    unknown.mkdir()
    async with dead.folder() as abandoned, living.folder() as used:
        fill(abandoned)
        assert dead.lock is not None
        # A process that dies loses its locks.
        os.close(dead.lock)
        for folder in (abandoned.parent, used.parent, unknown):
            age(folder)
        next_start = TempFolders(tmp_path)
        await next_start.open()
        assert names(tmp_path) == sorted([used.parent.name, "another"])
    dead.lock = None
    await living.close()


async def test_folder_of_a_process_that_is_starting_is_kept(tmp_path: Path) -> None:
    (tmp_path / "confab-files-starting").mkdir()
    await TempFolders(tmp_path).open()
    assert names(tmp_path) == ["confab-files-starting"]


async def test_folders_in_use_are_limited(tmp_path: Path) -> None:
    folders = TempFolders(tmp_path, most=2, wait_seconds=0.0)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(folders.folder())
        with pytest.raises(Unavailable):
            async with folders.folder():
                pass
    async with folders.folder():
        pass
    await folders.close()


async def test_cancelled_use_removes_its_folder(tmp_path: Path) -> None:
    folders = TempFolders(tmp_path)
    entered = asyncio.Event()

    async def use() -> None:
        async with folders.folder():
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(use())
    await entered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (root,) = names(tmp_path)
    assert names(tmp_path / root) == ["lock"]
    await folders.close()


async def test_an_owner_has_one_folder_at_a_time_and_keeps_no_others_from_theirs(tmp_path: Path) -> None:
    folders = TempFolders(tmp_path, most=2, owner_wait_seconds=0.05)
    for _ in range(2):
        async with folders.folder("alice"):
            with pytest.raises(Unavailable):
                async with folders.folder("alice"):
                    pass
            async with folders.folder("bob"):
                pass
    await folders.close()


async def test_uses_of_an_owner_take_turns_and_few_wait(tmp_path: Path) -> None:
    folders, running, most = TempFolders(tmp_path), 0, 0

    async def use() -> None:
        nonlocal running, most
        async with folders.folder("alice"):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    outcomes = await asyncio.gather(*(use() for _ in range(150)), return_exceptions=True)
    assert most == 1
    refused = [outcome for outcome in outcomes if outcome is not None]
    assert len(refused) == 49
    assert all(isinstance(error, Unavailable) for error in refused)
    await use()
    await folders.close()
