"""Connections to judged addresses, with a limit on the bytes that are read.

Needs `httpcore`, so import this module where it is used.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence

import httpcore

from resolvers.web_requests.errors import TooLarge
from resolvers.web_requests.first_address import connect_to_first

_READ_BYTES = 16_384
"""Bytes read at once. Between two reads other tasks of the process run, whatever the peer sends."""

HEAD_BYTES = 65_536
"""Most bytes of an answer before its body, with all interim responses."""


class ReceivedBytes:
    """Counts the bytes of one fetch, redirects included. At most HEAD_BYTES of them precede each body."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._received = 0
        self._limit = 0

    def begin_head(self) -> None:
        """Begin with another answer."""
        self._limit = min(self._received + HEAD_BYTES, self._max_bytes)

    def begin_body(self) -> None:
        """Allow all bytes that are left."""
        self._limit = self._max_bytes

    def add(self, count: int) -> None:
        """Count bytes. Raises TooLarge."""
        self._received += count
        if self._received > self._limit:
            raise TooLarge("the answer is too long")


class PinnedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to the given addresses, whatever the name of the host resolves to."""

    def __init__(self, addresses: Sequence[str], received: ReceivedBytes) -> None:
        self._addresses = addresses
        self._received = received
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that answers. Raises ConnectError, ConnectTimeout."""
        return _CountedStream(await connect_to_first(self._network, self._addresses, port), self._received)


class _CountedStream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: httpcore.AsyncNetworkStream, received: ReceivedBytes) -> None:
        self._stream = stream
        self._received = received

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        data = await self._stream.read(min(max_bytes, _READ_BYTES), timeout)
        self._received.add(len(data))
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        return _CountedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout), self._received)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)
