"""A process that serves files, and files in it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware

from resolvers.base.app import Confab
from server.cli.serve import _config
from server.files.routes import file_endpoints
from server.files.streaming import Downloads
from server.http.request_log import RequestLogMiddleware
from server.overload.load_shedding import LoadShedding
from server.settings import load_settings
from store.base.ids import FileId
from store.files.file import File, FileContent, FileState
from tests.api.client import Api
from tests.api.conftest import OpenApi
from tests.files.sample_files import create
from tests.protocol.serving import PATIENCE, serving

HOST = "http://127.0.0.1:8000"


@dataclass
class FileServer:
    """A served process."""

    api: Api
    http: httpx.AsyncClient
    downloads: Downloads
    port: int
    raw: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def app(self) -> Confab:
        return self.api.services.app

    async def add(self, data: bytes, content_type: str = "text/plain", name: str = "a.txt", **content: Any) -> File:
        """Return a file that is READY."""
        store = self.app.store
        file = await create(store, filename=name, size=len(data))
        blob = f"{file.id}/test"
        assert await store.files.begin_write(file.id, blob, store.clock.now_ms() + 60_000)
        info = await store.blobs.write(blob, _one(data))
        assert await store.files.finish_upload(file.id, info)
        found = FileContent(blob, content_type, len(data), **content)
        ready = await store.files.store_content(file.id, blob, FileState.READY, found)
        assert ready is not None
        return ready

    def path(self, file: File, width: int | None = None) -> str:
        """Return path and query of the address of a file."""
        return self.app.addresses.file(file.id, file.filename, width).removeprefix(HOST)

    async def get(self, file: File, width: int | None = None, **headers: str) -> httpx.Response:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.get(self.path(file, width), headers=given)

    async def send_raw(self, request: bytes) -> bytes:
        """Return the whole answer to a request that is sent as it is."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    async def find(self, file: FileId) -> File | None:
        return await self.app.store.files.find(file)


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data


def checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
async def server(open_api: OpenApi) -> AsyncIterator[FileServer]:
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(open_api("main"))
        downloads, shedding = Downloads(4), LoadShedding(500, 64)
        routes = file_endpoints(api.services.app, api.services.pictures, downloads, shedding, stack).routes
        app = Starlette(routes=routes, middleware=[Middleware(RequestLogMiddleware)])
        served = await stack.enter_async_context(serving(_config(app, load_settings())))
        url = f"http://127.0.0.1:{served.port}"
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=PATIENCE))
        yield FileServer(api, http, downloads, served.port)
