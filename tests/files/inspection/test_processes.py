"""The processes that decode: limits, crashes, time limits, what they may do, and their end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import subprocess
import sys
import textwrap
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from resolvers.base.errors import Unavailable
from resolvers.files.inspection import decoder_pool
from resolvers.files.inspection.decoder_pool import DecoderPool
from resolvers.files.inspection.decoding import limits
from resolvers.files.inspection.decoding.jobs import DecodingJob, DecodingLimits
from resolvers.files.inspection.inspector import Inspector
from resolvers.files.inspection.results import Inspected, RejectedFile
from tests.files.inspection.samples import encode, gif, gradient, png

ROOT = Path(__file__).parents[3]

Open = Callable[..., Inspector]


@pytest.fixture
async def open_inspector(tmp_path: Path) -> AsyncIterator[Open]:
    opened: list[Inspector] = []

    def open_one(limits: DecodingLimits | None = None, **settings: float) -> Inspector:
        pool = DecoderPool(int(settings.pop("size", 1)), **settings)
        opened.append(Inspector(tmp_path, pool=pool, limits=limits))
        return opened[-1]

    yield open_one
    for inspector in opened:
        await inspector.close()


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo"
    path.write_bytes(encode(gradient(64, 48), "JPEG"))
    return path


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of 16 megapixels."""
    path = tmp_path_factory.mktemp("large") / "large"
    header = struct.pack(">IIBBBBB", 4000, 4000, 8, 2, 0, 0, 0)
    path.write_bytes(png(header, zlib.compress(bytes(4000 * (1 + 3 * 4000)), 1)))
    return path


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """An animation of 300,000 frames, which takes seconds to decode."""
    path = tmp_path / "long"
    path.write_bytes(gif(300_000))
    return path


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A file that nobody writes: reading it never ends."""
    path = tmp_path / "endless"
    os.mkfifo(path)
    return path


def children(parent: int | None = None) -> set[int]:
    """Return the processes that are children of this one, or of another."""
    return {
        int(number)
        for number in Path(f"/proc/{parent or os.getpid()}/task/{parent or os.getpid()}/children").read_text().split()
    }


async def wait_until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def find_fork(seen: set[int]) -> tuple[int, int]:
    """Wait for a new process with a job. Return it and its fork."""
    found: list[tuple[int, int]] = []

    def is_found() -> bool:
        found.extend((process, fork) for process in children() - seen for fork in children(process))
        return bool(found)

    await wait_until(is_found)
    return found[0]


async def test_image_that_needs_too_much_cpu_time_is_rejected_and_the_next_one_is_decoded(
    open_inspector: Open, photo: Path, long: Path
) -> None:
    inspector = open_inspector(DecodingLimits(cpu_seconds=1, max_frames=1_000_000))
    assert await inspector.inspect(long) == RejectedFile("decoding takes longer than 1 s of CPU time")
    assert isinstance(await inspector.inspect(photo), Inspected)


def test_two_images_at_their_limit_refuse_nobody() -> None:
    killed_after_seconds = DecodingLimits().cpu_seconds + limits._KILLED_AFTER_SECONDS
    assert killed_after_seconds < decoder_pool._QUEUE_SECONDS < decoder_pool._JOB_SECONDS


async def test_image_that_needs_too_much_memory_is_rejected_and_the_next_one_is_decoded(
    open_inspector: Open, photo: Path, large: Path
) -> None:
    inspector = open_inspector(DecodingLimits(memory_bytes=150 << 20))
    assert await inspector.inspect(large) == RejectedFile("the image needs too much memory")
    assert isinstance(await inspector.inspect(photo), Inspected)


async def test_result_that_is_too_long_is_rejected(open_inspector: Open, photo: Path) -> None:
    inspector = open_inspector(DecodingLimits(output_bytes=500))
    assert await inspector.inspect(photo) == RejectedFile("OSError: [Errno 27] File too large")


async def test_busy_machine_rejects_no_image(open_inspector: Open, photo: Path) -> None:
    inspector = open_inspector(job_seconds=0.0)
    with pytest.raises(Unavailable):
        await inspector.inspect(photo)


async def test_more_jobs_than_processes_wait_and_then_are_refused(open_inspector: Open, photo: Path) -> None:
    waiting = open_inspector()
    found = await asyncio.gather(*(waiting.inspect(photo) for _ in range(4)))
    assert all(isinstance(result, Inspected) for result in found)
    full = open_inspector(queue_seconds=0.0)
    found = await asyncio.gather(*(full.inspect(photo) for _ in range(4)), return_exceptions=True)
    assert [type(result) for result in found].count(Unavailable) == 3


async def test_process_that_is_killed_during_a_job_is_replaced(
    open_inspector: Open, photo: Path, endless: Path
) -> None:
    inspector = open_inspector()
    seen = children()
    job = asyncio.create_task(inspector.inspect(endless))
    process, fork = await find_fork(seen)
    os.replace(photo, endless)  # noqa: PTH105
    os.kill(fork, signal.SIGKILL)
    assert isinstance(await job, Inspected)
    assert process not in children()


async def test_job_whose_process_is_killed_twice_says_nothing_about_the_file(
    open_inspector: Open, photo: Path, endless: Path
) -> None:
    inspector = open_inspector()
    seen = children()
    job = asyncio.create_task(inspector.inspect(endless))
    for _ in range(2):
        process, fork = await find_fork(seen)
        seen.add(process)
        os.kill(fork, signal.SIGKILL)
    with pytest.raises(Unavailable):
        await job
    assert isinstance(await inspector.inspect(photo), Inspected)


async def test_job_that_hangs_is_ended(open_inspector: Open, photo: Path, endless: Path) -> None:
    inspector = open_inspector(job_seconds=0.2)
    before = children()
    with pytest.raises(Unavailable):
        await inspector.inspect(endless)
    await wait_until(lambda: children() <= before)
    patient = open_inspector()
    assert isinstance(await patient.inspect(photo), Inspected)


async def test_process_that_is_killed_while_idle_is_replaced(open_inspector: Open, photo: Path) -> None:
    inspector = open_inspector()
    before = children()
    assert isinstance(await inspector.inspect(photo), Inspected)
    (process,) = children() - before
    os.kill(process, signal.SIGKILL)
    assert isinstance(await inspector.inspect(photo), Inspected)


async def test_cancelled_job_ends_its_process(open_inspector: Open, photo: Path, endless: Path) -> None:
    inspector = open_inspector()
    before = children()
    job = asyncio.create_task(inspector.inspect(endless))
    await find_fork(before)
    job.cancel()
    await asyncio.gather(job, return_exceptions=True)
    await wait_until(lambda: children() <= before)
    assert isinstance(await inspector.inspect(photo), Inspected)


async def test_processes_start_with_the_first_job_and_end_when_idle(open_inspector: Open, photo: Path) -> None:
    before = children()
    inspector = open_inspector(idle_seconds=0.0)
    assert children() == before
    assert isinstance(await inspector.inspect(photo), Inspected)
    await wait_until(lambda: children() <= before)
    assert isinstance(await inspector.inspect(photo), Inspected)


async def test_closing_ends_the_processes(open_inspector: Open, photo: Path) -> None:
    before = children()
    inspector = open_inspector()
    assert isinstance(await inspector.inspect(photo), Inspected)
    await inspector.close()
    assert children() <= before


ATTEMPTS = {
    "a file to read": "open('/etc/passwd')",
    "a file to write": "open('/tmp/confab-attempt', 'w')",
    "a folder": "os.mkdir('/tmp/confab-attempt')",
    "removing a file": "os.unlink('/tmp/confab-attempt')",
    "a connection": "socket.socket()",
    "a pair of sockets": "socket.socketpair()",
    "a program": "os.execv('/bin/true', ['true'])",
    "another program": "subprocess.run(['/bin/true'])",
    "a process": "os.fork()",
    "a signal to the server": "os.kill(os.getppid(), 0)",
}


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine not in {"x86_64", "aarch64"}, reason="Linux only")
def test_decoding_can_open_nothing_and_start_nothing() -> None:
    program = f"""
        import json, os, socket, subprocess, threading
        from resolvers.files.inspection.decoding import system_calls
        system_calls.restrict()
        refused = {{}}
        for name, attempt in {ATTEMPTS!r}.items():
            try:
                eval(attempt)
            except PermissionError:
                refused[name] = True
        thread = threading.Thread(target=lambda: refused.update(thread=True))
        thread.start()
        thread.join()
        print(json.dumps(refused))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == dict.fromkeys([*ATTEMPTS, "thread"], True)


async def test_processes_see_no_secrets_and_nothing_of_the_server(
    open_inspector: Open, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONFAB_JWT_SECRET", "a secret of the server")
    inspector = open_inspector()
    before = children()
    assert isinstance(await inspector.inspect(photo), Inspected)
    (process,) = children() - before
    assert "CONFAB" not in environment(process)
    assert all(not target.startswith("socket:") for target in open_files(process))


def environment(process: int) -> str:
    return Path(f"/proc/{process}/environ").read_text()


def open_files(process: int) -> list[str]:
    return [str(path.readlink()) for path in Path(f"/proc/{process}/fd").iterdir()]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_full_disk_rejects_no_image(tmp_path: Path, photo: Path) -> None:
    pool = DecoderPool(1)
    try:
        with pytest.raises(Unavailable):
            await pool.run(DecodingJob("inspect", str(photo), "/dev/full", None, None, 0, DecodingLimits()))
        with pytest.raises(Unavailable):
            await pool.run(
                DecodingJob(
                    "inspect", str(tmp_path / "nothing"), str(tmp_path / "new"), None, None, 0, DecodingLimits()
                )
            )
    finally:
        await pool.close()


def test_no_code_of_the_server_runs_in_a_new_process(photo: Path) -> None:
    """The loop of the server starts processes by a fork that runs handlers of libraries, for example of PyMongo."""
    script = f"""
        import asyncio, os, sys, uvloop
        from pathlib import Path
        from resolvers.files.inspection.inspector import Inspector
        os.register_at_fork(after_in_child=lambda: os.write(1, b"a handler ran"))
        async def main():
            inspector = Inspector(Path({str(photo.parent)!r}))
            print((await inspector.inspect(Path({str(photo)!r}))).content_type)
            await inspector.close()
        uvloop.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "image/jpeg\n"
