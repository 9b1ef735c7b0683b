"""A server on loopback that speaks HTTP/2 as APNs does, with TLS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, StreamEnded
from h2.settings import SettingCodes, Settings

from tests.push.services.push_server import Received, server_context


@dataclass(frozen=True)
class ApnsReply:
    """An answer. status 0: none. goes_away: the connection is ended with GOAWAY instead. resets: without one."""

    status: int = 200
    body: Mapping[str, Any] | bytes = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    goes_away: bool = False
    resets: bool = False
    sends_garbage: bool = False


ACCEPTED = ApnsReply(200, b"")
GOES_AWAY = ApnsReply(goes_away=True)
RESETS = ApnsReply(resets=True)
GARBAGE = ApnsReply(sends_garbage=True)
SILENT = ApnsReply(0)


def refusal(status: int, reason: str, /, headers: Mapping[str, str] | None = None, **fields: Any) -> ApnsReply:
    return ApnsReply(status, {"reason": reason, **fields}, headers or {})


@dataclass
class ApnsServer:
    """Answers with the replies of `queue`, then with `reply`; `choose` goes before both."""

    port: int = 0
    reply: ApnsReply = ACCEPTED
    queue: list[ApnsReply] = field(default_factory=list)
    choose: Callable[[Received], ApnsReply] | None = None
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    streams_at_once: int = 100

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        # Values that are set later are announced only once the client has confirmed the first ones.
        limits = {SettingCodes.MAX_CONCURRENT_STREAMS: self.streams_at_once}
        connection.local_settings = Settings(client=False, initial_values=limits)
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        requests: dict[int, tuple[dict[str, str], bytearray]] = {}
        with suppress(OSError):
            while data := await reader.read(65_536):
                for event in connection.receive_data(data):
                    if isinstance(event, RequestReceived) and event.stream_id and event.headers:
                        requests[event.stream_id] = ({str(k): str(v) for k, v in event.headers}, bytearray())
                    elif isinstance(event, DataReceived) and event.stream_id and event.data:
                        requests[event.stream_id][1].extend(event.data)
                        connection.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
                    elif isinstance(event, StreamEnded) and event.stream_id:
                        headers, body = requests.pop(event.stream_id)
                        request = Received(headers[":method"], headers[":path"], headers, bytes(body))
                        if not self._answer(connection, writer, event.stream_id, request):
                            return
                writer.write(connection.data_to_send())
                await writer.drain()

    def _answer(self, connection: H2Connection, writer: asyncio.StreamWriter, stream: int, request: Received) -> bool:
        """Answer a request. Return whether the connection goes on."""
        self.received.append(request)
        reply = self.choose(request) if self.choose else self.queue.pop(0) if self.queue else self.reply
        if reply.resets:
            writer.transport.abort()
            return False
        if reply.sends_garbage:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" * 20)
            writer.close()
            return False
        if reply.goes_away:
            connection.close_connection(ErrorCodes.NO_ERROR, last_stream_id=stream - 2 if stream > 1 else 0)
            writer.write(connection.data_to_send())
            writer.close()
            return False
        if reply.status:
            connection.send_headers(stream, [(":status", str(reply.status)), *reply.headers.items()])
            body = reply.body if isinstance(reply.body, bytes) else orjson.dumps(reply.body)
            while body:
                piece, body = body[:16_000], body[16_000:]
                if connection.local_flow_control_window(stream) < len(piece):
                    break
                connection.send_data(stream, piece)
            connection.end_stream(stream)
        return True


@asynccontextmanager
async def open_apns_server() -> AsyncIterator[ApnsServer]:
    """Serve for the time of the block."""
    apns_server = ApnsServer()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            # asyncio reports cancelled handlers as errors.
            with suppress(asyncio.CancelledError):
                await apns_server.serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context("h2"))
    apns_server.port = server.sockets[0].getsockname()[1]
    try:
        yield apns_server
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
