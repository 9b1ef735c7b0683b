"""The server wakes up rarely, and still stops at once."""

from __future__ import annotations

import asyncio
import signal

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from server.process import uvicorn_server
from server.process.uvicorn_server import EventDrivenServer
from tests.protocol.serving import PATIENCE


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> EventDrivenServer:
    monkeypatch.setattr(uvicorn_server, "_HEADER_SECONDS", 60.0)

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        return

    config = uvicorn.Config(app, interface="asgi3", lifespan="off", log_config=None)
    config.load()
    return EventDrivenServer(config)


async def test_a_signal_stops_the_server_at_once(server: EventDrivenServer) -> None:
    running = asyncio.create_task(server.main_loop())
    await asyncio.sleep(0.01)
    assert not running.done()
    server.handle_exit(signal.SIGTERM, None)
    async with asyncio.timeout(PATIENCE):
        await running


async def test_a_server_that_has_to_stop_can_be_woken(server: EventDrivenServer) -> None:
    running = asyncio.create_task(server.main_loop())
    await asyncio.sleep(0.01)
    server.should_exit = True
    server.wake()
    async with asyncio.timeout(PATIENCE):
        await running


async def test_responses_have_a_date(server: EventDrivenServer) -> None:
    running = asyncio.create_task(server.main_loop())
    await asyncio.sleep(0.01)
    assert b"date" in dict(server.server_state.default_headers)
    server.handle_exit(signal.SIGTERM, None)
    await running
