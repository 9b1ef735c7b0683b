"""The virus scanner: answers, silence, refusals, and Debian's clamd if it is installed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from resolvers.files.inspection.scanner import Clean, Infected, NoAnswer, Scanner
from tests.files.inspection.clamd import EICAR, FakeClamd, running_clamd

PLENTY = 60.0
"""Time limit that a busy machine keeps (s)."""

CLAMD = shutil.which("clamd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@pytest.fixture
async def clamd() -> AsyncIterator[FakeClamd]:
    async with running_clamd() as clamd:
        yield clamd


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        (tmp_path / "file").write_bytes(content)
        return tmp_path / "file"

    return write


@pytest.mark.parametrize("size", [0, 1, 65_536, 200_001])
async def test_scanner_gets_the_whole_file(clamd: FakeClamd, write: Callable[[bytes], Path], size: int) -> None:
    content = os.urandom(size)
    assert await Scanner(clamd.url).scan(write(content), PLENTY) == Clean()
    assert clamd.received == [content]


async def test_infected_file_has_the_name_of_what_was_found(clamd: FakeClamd, write: Callable[[bytes], Path]) -> None:
    assert await Scanner(clamd.url).scan(write(EICAR), PLENTY) == Infected("Eicar-Test-Signature")


@pytest.mark.parametrize("answer", [b"", b"stream: OK OK\0", b"COMMAND READ TIMED OUT\0", b"x" * 10_000, b"\xff\0"])
async def test_other_answers_say_nothing_about_the_file(
    clamd: FakeClamd, write: Callable[[bytes], Path], answer: bytes
) -> None:
    clamd.answer = answer
    assert isinstance(await Scanner(clamd.url).scan(write(b"content"), PLENTY), NoAnswer)


async def test_scanner_that_refuses_a_long_file_while_it_is_sent_gives_no_answer(
    clamd: FakeClamd, write: Callable[[bytes], Path]
) -> None:
    clamd.max_bytes = 1000
    assert isinstance(await Scanner(clamd.url).scan(write(bytes(5_000_000)), PLENTY), NoAnswer)


async def test_silent_scanner_gives_no_answer_within_the_time_limit(
    clamd: FakeClamd, write: Callable[[bytes], Path]
) -> None:
    clamd.is_silent = True
    found = await Scanner(clamd.url).scan(write(b"content"), 0.05)
    assert found == NoAnswer("no answer within 0.05 s")


async def test_unreachable_scanner_gives_no_answer(write: Callable[[bytes], Path], tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        for url in (f"tcp://127.0.0.1:{unused.getsockname()[1]}", f"unix://{tmp_path}/clamd.ctl"):
            assert isinstance(await Scanner(url).scan(write(b"content"), PLENTY), NoAnswer)


@pytest.mark.skipif(CLAMD is None, reason="clamd is not installed (Debian: clamav-daemon)")
async def test_debians_clamd_finds_the_test_file(write: Callable[[bytes], Path], tmp_path: Path) -> None:
    database = tmp_path / "database"
    database.mkdir()
    (database / "test.hdb").write_text(f"{hashlib.md5(EICAR).hexdigest()}:{len(EICAR)}:Confab.Test\n")
    address = tmp_path / "clamd.ctl"
    settings = tmp_path / "clamd.conf"
    settings.write_text(f"LocalSocket {address}\nDatabaseDirectory {database}\nForeground yes\nStreamMaxLength 1M\n")
    assert CLAMD is not None
    process = await asyncio.create_subprocess_exec(
        CLAMD,
        *("--config-file", str(settings)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(PLENTY):
            while not address.exists():
                assert process.returncode is None
                await asyncio.sleep(0.05)
        scanner = Scanner(f"unix://{address}")
        for content, expected in ((EICAR, Infected("Confab.Test.UNOFFICIAL")), (b"harmless", Clean())):
            assert await scanner.scan(write(content), PLENTY) == expected
        assert isinstance(await scanner.scan(write(bytes(2 << 20)), PLENTY), NoAnswer)
    finally:
        process.kill()
        await process.wait()
