"""Clients that read slowly or not at all: what they may hold, and whether others can still read files."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from store.base.errors import Unreachable
from store.files.file import File
from tests.api.serving.conftest import FileServer
from tests.protocol.serving import until

SIZE = 12_000_000
"""More than the kernel's buffers of a connection hold."""


class Reader:
    """A client that reads only when a test asks for it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.loop = asyncio.get_running_loop()

    @classmethod
    async def start(cls, server: FileServer, file: File) -> Reader:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connection.setblocking(False)
        reader = cls(connection)
        await reader.loop.sock_connect(connection, ("127.0.0.1", server.port))
        request = f"GET {server.path(file)} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        await reader.loop.sock_sendall(connection, request.encode())
        return reader

    async def read_all(self) -> int:
        """Return the number of bytes until the end."""
        total = 0
        with suppress(ConnectionResetError):
            while data := await self.loop.sock_recv(self.connection, 1_000_000):
                total += len(data)
        return total

    def close(self) -> None:
        self.connection.close()


@pytest.fixture(scope="module")
async def large(server: FileServer) -> File:
    return await server.add(bytes(SIZE), "video/mp4", "a.mp4")


async def all_wait(server: FileServer) -> None:
    """Return when no running download sends any more."""
    sent, unchanged = -1, 0
    while unchanged < 3:
        is_same = sent == server.downloads.bytes_sent
        is_waiting = all(each.waiting_since is not None for each in server.downloads._running)
        unchanged = unchanged + 1 if is_same and is_waiting else 0
        sent = server.downloads.bytes_sent
        await asyncio.sleep(0.05)


async def test_a_client_that_reads_nothing_holds_little_and_gives_it_back(server: FileServer, large: File) -> None:
    before = server.downloads.bytes_sent
    reader = await Reader.start(server, large)
    await until(lambda: server.downloads.running == 1)
    await all_wait(server)
    assert server.downloads.bytes_sent - before < SIZE
    reader.close()
    await until(lambda: server.downloads.running == 0)
    assert server.downloads.bytes_sent - before < SIZE


async def test_a_client_that_pauses_gets_everything(server: FileServer, large: File) -> None:
    reader = await Reader.start(server, large)
    await until(lambda: server.downloads.running == 1)
    await all_wait(server)
    assert await reader.read_all() > SIZE
    reader.close()
    await until(lambda: server.downloads.running == 0)


async def test_clients_that_read_nothing_lose_their_places_to_others(
    server: FileServer, large: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(server.downloads, "_clock", lambda: now)
    small = await server.add(b"small")
    readers = []
    for _ in range(4):
        readers.append(await Reader.start(server, large))
        await until(lambda: server.downloads.running == len(readers))
        await all_wait(server)
        now = 1_001.0
    now = 1_004.9
    answer = await server.get(small)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert server.downloads.running == 4
    # The first one has accepted nothing for five seconds, the others for less.
    now = 1_005.0
    assert (await server.get(small)).content == b"small"
    assert await readers[0].read_all() < SIZE
    await until(lambda: server.downloads.running == 3)
    for reader in readers[1:]:
        assert await reader.read_all() > SIZE
    for reader in readers:
        reader.close()
    await until(lambda: server.downloads.running == 0)


async def test_a_file_that_ends_early_is_not_taken_for_whole(
    server: FileServer, large: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = server.app.store.blobs.read

    async def fail_later(name: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        async for piece in read(name, start, 300_000):
            yield piece
        raise Unreachable("the store has gone")

    monkeypatch.setattr(server.app.store.blobs, "read", fail_later)
    reader = await Reader.start(server, large)
    assert await reader.read_all() < 400_000
    reader.close()
    await until(lambda: server.downloads.running == 0)

    async def fail_at_once(name: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        raise Unreachable("the store has gone")
        yield b""

    monkeypatch.setattr(server.app.store.blobs, "read", fail_at_once)
    assert (await server.get(large)).status_code == 503
