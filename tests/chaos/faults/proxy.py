"""A TCP proxy program whose links can be slowed, stalled or cut.

`proxy.py PORT:TARGET…` forwards each port to its target. Each line on standard input is `LINK MODE SECONDS`, where
LINK is the index of a pair; the proxy answers each with a line. It ends with its standard input.

- pass: forwards everything.
- slow: delays each piece by that many seconds, one after another.
- stall: forwards nothing, and keeps what comes.
- mute: forwards requests, and keeps the answers: the target acts, and the client does not learn it.
- lossy: forwards requests, and cuts a connection at its first answer.
- cut: ends all connections, and each new one at once.
"""

from __future__ import annotations

import asyncio
import sys

_PIECE = 65_536


class Link:
    """One port and its target."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._mode = "pass"
        self._seconds = 0.0
        self._changed = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    def set_mode(self, mode: str, seconds: float) -> None:
        """Change the mode from the next piece on."""
        self._mode, self._seconds = mode, seconds
        self._changed.set()
        self._changed = asyncio.Event()
        if mode == "cut":
            for writer in list(self._writers):
                writer.transport.abort()

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        if self._mode == "cut":
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        there = asyncio.create_task(self._pump(reader, far_writer, answers=False))
        back = asyncio.create_task(self._pump(far_reader, writer, answers=True))
        try:
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._writers -= pair
            for end in pair:
                end.transport.abort()
            there.cancel()
            back.cancel()
            await asyncio.gather(there, back, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        try:
            while piece := await reader.read(_PIECE):
                while self._mode == "stall" or (answers and self._mode == "mute"):
                    await self._changed.wait()
                if answers and self._mode == "lossy":
                    return
                if self._mode == "slow":
                    await asyncio.sleep(self._seconds)
                writer.write(piece)
                await writer.drain()
        except OSError:
            return


async def _run(pairs: list[str]) -> None:
    links, servers = [], []
    for pair in pairs:
        port, target = map(int, pair.split(":"))
        link = Link(target)
        links.append(link)
        servers.append(await asyncio.start_server(link.forward, "127.0.0.1", port, backlog=512))
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    print("ready", flush=True)
    while line := await commands.readline():
        place, mode, seconds = line.decode().split()
        links[int(place)].set_mode(mode, float(seconds))
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1:]))
