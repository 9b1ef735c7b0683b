"""The cost of files, and what other users notice.

`python -m bench.files.transfers` starts MongoDB, Redis and a server. Eight files of 25 MB are uploaded at the same
time, completed, sent in messages, and downloaded at the same time. Another user sends messages all the while, one at a
time. Printed are the memory of the server above its memory at rest, CPU per MB of each process, and the times of the
messages at rest and meanwhile. The CPU of these messages is subtracted. The bytes are sent and received by a process of
its own, which is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bench.load_process import LoadProcess
from bench.memory import memory
from bench.selections import SEND_MESSAGE
from bench.threads.stage import PROCESSES, Stage, open_stage

NAME = "bench_files"
_APART_SECONDS = 0.02
_SAMPLE_SECONDS = 0.02
_REST_SECONDS = 5.0
_AFTERMATH_SECONDS = 0.5

CREATE_UPLOAD = """mutation ($input: CreateUploadInput!) {
  createUpload(input: $input) { id url method headers { name value } } }"""
COMPLETE_UPLOAD = "mutation ($id: ID!) { completeUpload(uploadId: $id) { id state sizeBytes } }"
SEND_FILE = """mutation ($to: ID!, $file: ID!) {
  sendMessage(input: {toUserId: $to, content: "", attachmentIds: [$file]}) { message { attachments { url } } } }"""


class Bench:
    """Files of one user, and messages of another."""

    def __init__(self, stage: Stage, load: LoadProcess, given: argparse.Namespace) -> None:
        self._stage = stage
        self._load = load
        self._count, self._size = given.files, given.bytes
        self._conversation = ""
        self._rest = 0
        """Memory of the server at rest, bytes."""
        self._of_message = dict.fromkeys(PROCESSES, 0.0)
        """CPU of one message of the other user, µs."""

    async def run(self) -> None:
        for user in ("alice", "bob", "carol", "dave"):
            await self._stage.ask(user, "{ me { id } }")
        query = (
            """mutation { sendMessage(input: {toUserId: "dave", content: "first"}) { message { conversationId } } }"""
        )
        self._conversation = (await self._stage.ask("carol", query))["message"]["conversationId"]
        # The first file of a server loads what files need.
        await self._transfer(1, quiet=True)
        await self._stage.settle()
        print(f"{self._count} files of {self._size / 1e6:.0f} MB at the same time")
        titles = f"{'s':>6} {'CPU ms/MB: server':>18} {'MongoDB':>8} {'memory +MB':>11} {'send p50 ms':>12} {'p99':>7}"
        print(f"{'':<10} {titles}")
        await self._measure("at rest", lambda: asyncio.sleep(_REST_SECONDS), learn=True)
        await self._transfer(self._count, quiet=False)

    async def _transfer(self, count: int, *, quiet: bool) -> None:
        given = [
            {"filename": f"{number}.bin", "sizeBytes": self._size, "conversationId": "p_alice_bob"}
            for number in range(count)
        ]
        uploads = [await self._stage.ask("alice", CREATE_UPLOAD, input=each) for each in given]
        urls: list[str] = []

        async def upload() -> None:
            found = await self._load.ask("upload", uploads=uploads, size=self._size)
            if any(not 200 <= status < 300 for status in found["statuses"]):
                raise RuntimeError(f"uploads were refused: {found['statuses']}")

        async def complete() -> None:
            for each in uploads:
                completed = await self._stage.ask("alice", COMPLETE_UPLOAD, id=each["id"])
                if (completed["state"], completed["sizeBytes"]) != ("READY", self._size):
                    raise RuntimeError(f"a file was not accepted: {completed}")

        async def download() -> None:
            found = await self._load.ask("download", urls=urls)
            if found["received"] != [self._size] * count:
                raise RuntimeError(f"files are not whole: {found['received']}")

        await self._measure("upload", upload, quiet=quiet)
        await self._measure("complete", complete, quiet=quiet)
        for each in uploads:
            sent = await self._stage.ask("alice", SEND_FILE, to="bob", file=each["id"])
            urls.append(sent["message"]["attachments"][0]["url"])
        await self._measure("download", download, quiet=quiet)

    async def _measure(
        self, name: str, act: Callable[[], Awaitable[Any]], *, quiet: bool = False, learn: bool = False
    ) -> None:
        """Print what an action costs, and what another user notices.

        quiet: print nothing. learn: it costs nothing, so all that is spent is the cost of the messages.
        """
        if learn:
            self._rest = memory(self._stage.server.pid).rss
        began = time.perf_counter()
        took = 0.0

        async def timed() -> None:
            nonlocal took
            await act()
            took = time.perf_counter() - began

        async with self._sending() as latencies, self._watching_memory() as highest:
            spent = await self._stage.measure(timed, _AFTERMATH_SECONDS)
        if quiet:
            return
        megabytes = self._count * self._size / 1e6
        if learn:
            self._of_message = {process: spent[process] / len(latencies) for process in PROCESSES}
        own = {
            process: (spent[process] - len(latencies) * self._of_message[process]) / 1000 / megabytes
            for process in PROCESSES
        }
        times = sorted(latencies)
        above = (highest[0] - self._rest) / 1e6
        print(
            f"{name:<10} {took:>6.1f} {own['server']:>18.2f} {own['MongoDB']:>8.2f} {above:>11.1f} "
            f"{1000 * times[len(times) // 2]:>12.1f} {1000 * times[len(times) * 99 // 100]:>7.1f}",
            flush=True,
        )

    @asynccontextmanager
    async def _sending(self) -> AsyncIterator[Sequence[float]]:
        """Send messages for the time of the block, and provide their times."""
        latencies: list[float] = []

        async def send() -> None:
            while True:
                began = time.perf_counter()
                await self._stage.ask("carol", SEND_MESSAGE, id=self._conversation, text="meanwhile")
                latencies.append(time.perf_counter() - began)
                await asyncio.sleep(_APART_SECONDS)

        async with _running(send()):
            yield latencies

    @asynccontextmanager
    async def _watching_memory(self) -> AsyncIterator[list[int]]:
        """Provide the highest memory of the server during the block."""
        highest = [memory(self._stage.server.pid).rss]

        async def watch() -> None:
            while True:
                highest[0] = max(highest[0], memory(self._stage.server.pid).rss)
                await asyncio.sleep(_SAMPLE_SECONDS)

        async with _running(watch()):
            yield highest


@asynccontextmanager
async def _running(work: Any) -> AsyncIterator[None]:
    """Run something for the time of the block. Raises its error."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        if not task.done():
            task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()


async def _run(given: argparse.Namespace) -> None:
    async with (
        open_stage(NAME, lambda _mongo: None) as stage,
        LoadProcess("bench.files.transfer_worker") as load,
    ):
        await Bench(stage, load, given).run()


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="bench.files", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--bytes", type=int, default=25_000_000, help="of each file")
    asyncio.run(_run(parser.parse_args(given)))


if __name__ == "__main__":
    main()
