"""The server process: socket options, shutdown, and what `confab dev` prints."""

from __future__ import annotations

import asyncio
import socket
from io import StringIO

import pytest
import uvicorn
from rich.console import Console
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from server.cli.dev import _print_instructions, development_settings
from server.cli.serve import bind
from server.http.client_limits import ClientLimits
from server.process.graceful_shutdown import GracefulShutdown
from server.process.uvicorn_shutdown import HttpProtocol
from tests.protocol.serving import PATIENCE, serving, until


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux alone has it")
def test_unacknowledged_data_times_out_after_45_seconds() -> None:
    with bind("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 45_000
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


async def test_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpProtocol, "default_limits", ClientLimits(head_seconds=0.5))

    async def answer_late(_scope: Scope, _receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.7)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    config = uvicorn.Config(answer_late, http=HttpProtocol, lifespan="off", log_config=None)
    async with serving(config) as served:
        request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"

        async def what_comes(sent: bytes) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(sent)
            async with asyncio.timeout(PATIENCE):
                come = await reader.read(12)
            writer.close()
            return come

        answers = await asyncio.gather(what_comes(b""), what_comes(request[:-2]), what_comes(request))
    assert answers == [b"", b"", b"HTTP/1.1 204"]


async def test_stopping_server_answers_and_closes_the_connection() -> None:
    async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    config = uvicorn.Config(answer, http=HttpProtocol, lifespan="off", log_config=None)
    async with serving(config) as served, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        writer.write(request)
        assert b"connection: close" not in await reader.readuntil(b"\r\n\r\n")
        (listening,) = served.server.servers
        served.tell_to_stop()
        await until(lambda: not listening.is_serving())
        writer.write(request)
        last = await reader.read()
        writer.close()
    assert last.startswith(b"HTTP/1.1 204") and b"connection: close" in last


async def test_shutdown_is_logged_at_its_start_and_end() -> None:
    stopping, told = GracefulShutdown(), asyncio.Event()

    async def drain() -> None:
        told.set()

    stopping.add_drain(drain)
    with capture_logs() as logs:
        await stopping.begin()
        await stopping.begin()
    assert told.is_set()
    assert [entry["event"] for entry in logs] == ["shutdown_started", "clients_disconnected"]


@pytest.mark.parametrize(
    ("host", "public_url", "is_warned"),
    [
        ("0.0.0.0", None, True),
        ("::", None, True),
        ("0.0.0.0", "https://chat.example.org", False),
        ("127.0.0.1", None, False),
        ("192.0.2.1", None, False),
    ],
)
def test_dev_warns_that_clients_may_not_reach_the_address_of_files(
    host: str, public_url: str | None, is_warned: bool
) -> None:
    out = StringIO()
    settings = development_settings(host=host, port=8000, public_url=public_url)
    _print_instructions(settings, Console(file=out), lambda _: None)
    warned = "Warning: CONFAB_PUBLIC_URL is not set: addresses of files begin with http://localhost:8000, which"
    assert (warned in out.getvalue()) is is_warned
    assert out.getvalue().count("Warning:") == is_warned
