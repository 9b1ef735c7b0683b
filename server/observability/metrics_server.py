"""Server for Prometheus on a separate address. It answers `GET /metrics` only."""

from __future__ import annotations

import asyncio
import errno
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import structlog

PATH = "/metrics"
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_CHALLENGE = "www-authenticate: Bearer\r\n"
_HEAD_BYTES = 16_384
_TIMEOUT_SECONDS = 10.0
_MAX_REQUESTS = 8
_PORTS = 65_536
_RETRY_SECONDS = 1.0
"""Interval at which a process without a port looks for one."""

log = structlog.get_logger(__name__)


class MetricsText(Protocol):
    """The metrics of a process."""

    async def text(self) -> bytes:
        """Return the metrics in Prometheus's text format."""
        ...


class MetricsServer:
    """Minimal HTTP/1.1 server: one request per connection."""

    def __init__(self, metrics: MetricsText, token: str | None = None) -> None:
        """Create the server. With a `token`, requests need it in their Authorization header."""
        self._metrics = metrics
        self._authorization = None if token is None else f"bearer {token}".encode()
        self._requests = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until its end."""
        self._requests += 1
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                writer.write(await self._answer(reader))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._requests -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        if self._requests > _MAX_REQUESTS:
            return _response("503 Service Unavailable", b"too many requests\n")
        head = await reader.readuntil(b"\r\n\r\n")
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if path != PATH.encode():
            return _response("404 Not Found", b"metrics are at /metrics\n")
        if method != b"GET":
            return _response("405 Method Not Allowed", b"use GET\n")
        if not self._is_authorized(head):
            return _response("401 Unauthorized", b"use Authorization: Bearer <CONFAB_METRICS_TOKEN>\n", _CHALLENGE)
        return _response("200 OK", await self._metrics.text())

    def _is_authorized(self, head: bytes) -> bool:
        if self._authorization is None:
            return True
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"authorization":
                scheme, _, token = value.strip().partition(b" ")
                return hmac.compare_digest(scheme.lower() + b" " + token.strip(), self._authorization)
        return False


def _response(status: str, body: bytes, header: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\n{header}content-type: {_CONTENT_TYPE}\r\ncontent-length: {len(body)}\r\n"
        "cache-control: no-store\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


@asynccontextmanager
async def serve_metrics(
    metrics: MetricsText, host: str, port: int, port_count: int, token: str | None = None
) -> AsyncIterator[int]:
    """Serve metrics for the duration of the block, on the first free port of `port_count` ports from `port` on.

    Returns the port, or 0 if none is free. That is logged, and does not stop the server. It takes a port that becomes
    free later: during a restart, a worker process and its replacement run at the same time.
    """
    server = MetricsServer(metrics, token)
    listener: asyncio.Server | None = None
    waiting: asyncio.Task[None] | None = None
    try:
        listener = await _listen(server, host, port, port_count)
        if listener is None:
            # Not an error: each rolling restart has one process more than ports for a moment.
            log.warning("metrics_not_served", host=host, port=port, port_count=port_count, reason="no port is free yet")
            waiting = asyncio.create_task(_serve_later(server, host, port, port_count))
    except OSError as error:
        log.error("metrics_not_served", host=host, port=port, port_count=port_count, reason=error.strerror)
    try:
        yield 0 if listener is None else _port_of(listener)
    finally:
        if listener is not None:
            listener.close()
        if waiting is not None:
            waiting.cancel()


async def _listen(server: MetricsServer, host: str, port: int, port_count: int) -> asyncio.Server | None:
    """Listen on the first free port. Returns None if all are in use. Raises OSError for other reasons."""
    for number in range(port, min(port + port_count, _PORTS)):
        try:
            listener = await asyncio.start_server(server.serve, host, number, limit=_HEAD_BYTES)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            log.info("metrics_served", host=host, port=_port_of(listener))
            return listener
    return None


async def _serve_later(server: MetricsServer, host: str, port: int, port_count: int) -> None:
    """Serve as soon as a port is free, until this task is cancelled."""
    listener: asyncio.Server | None = None
    while listener is None:
        await asyncio.sleep(_RETRY_SECONDS)
        listener = await _listen(server, host, port, port_count)
    try:
        await asyncio.Event().wait()
    finally:
        listener.close()


def _port_of(listener: asyncio.Server) -> int:
    return int(listener.sockets[0].getsockname()[1])
