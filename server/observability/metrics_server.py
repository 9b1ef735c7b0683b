"""Where Prometheus asks: an address of its own, which is nobody else's. `GET /metrics`, and nothing else."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from server.observability.metrics import Metrics

PATH = "/metrics"
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HEAD_BYTES = 16_384
_PATIENCE_SECONDS = 10.0
_AT_ONCE = 8
_PORTS = 65_536

log = structlog.get_logger(__name__)


class MetricsServer:
    """As little of HTTP/1.1 as that takes: one request a connection."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._asking = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        self._asking += 1
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                writer.write(await self._answer(reader))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._asking -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        if self._asking > _AT_ONCE:
            return _response("503 Service Unavailable", b"too many ask\n")
        head = await reader.readuntil(b"\r\n\r\n")
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if path != PATH.encode():
            return _response("404 Not Found", b"metrics are at /metrics\n")
        if method != b"GET":
            return _response("405 Method Not Allowed", b"use GET\n")
        return _response("200 OK", await self._metrics.text())


def _response(status: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {_CONTENT_TYPE}\r\ncontent-length: {len(body)}\r\n"
        "cache-control: no-store\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


@asynccontextmanager
async def serving_metrics(metrics: Metrics, host: str, port: int, ports: int) -> AsyncIterator[int]:
    """Serves for the time of the block, on the first of so many ports that is free. Answers which; 0: none was, which is logged and
    keeps nobody from being served."""
    server = MetricsServer(metrics)
    listener, taken = None, 0
    for number in range(port, min(port + ports, _PORTS)):
        try:
            listener = await asyncio.start_server(server.serve, host, number, limit=_HEAD_BYTES)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                log.error("metrics_not_served", host=host, port=number, reason=error.strerror)
                break
        else:
            taken = int(listener.sockets[0].getsockname()[1])
            break
    else:
        log.error("metrics_not_served", host=host, port=port, ports=ports, reason="no port is free")
    try:
        if listener is not None:
            log.info("serving_metrics", host=host, port=taken)
        yield taken
    finally:
        if listener is not None:
            listener.close()
