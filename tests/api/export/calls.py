"""Calls about exports, and what is in their zips."""

from __future__ import annotations

import io
import zipfile
from contextlib import AsyncExitStack

import httpx
import orjson
from starlette.applications import Starlette

from server.files.routes import file_endpoints
from server.files.streaming import Downloads
from server.overload.load_shedding import LoadShedding
from tests.api.client import Api, Json, wait_until

EXPORT = "id state url expiresAt"
BEGIN = f"mutation {{ exportMyData {{ {EXPORT} }} }}"
FIND = f"query ($id: ID!) {{ export(id: $id) {{ {EXPORT} }} }}"


async def begin(api: Api, user: str) -> Json:
    begun: Json = (await api.data(user, BEGIN))["exportMyData"]
    return begun


async def find(api: Api, user: str, export: str) -> Json | None:
    found: Json | None = (await api.data(user, FIND, id=export))["export"]
    return found


async def export(api: Api, user: str) -> Json:
    """Begin an export, and return it once it is DONE."""
    begun = await begin(api, user)
    await api.services.job_worker.run_due()
    found = await find(api, user, begun["id"])
    assert found is not None and found["state"] == "DONE", found
    return found


async def wait_for_export(api: Api, user: str) -> None:
    """Begin an export at a process with workers, and wait until it is DONE."""
    begun = await begin(api, user)

    async def is_done() -> bool:
        found = await find(api, user, begun["id"])
        return found is not None and found["state"] == "DONE"

    await wait_until(is_done)


async def get(api: Api, url: str, *, follow: bool = True, **headers: str) -> httpx.Response:
    """Return the answer to a GET of an address of a file."""
    async with AsyncExitStack() as stack:
        endpoints = file_endpoints(api.services.app, api.services.pictures, Downloads(10), LoadShedding(10, 10), stack)
        transport = httpx.ASGITransport(Starlette(routes=endpoints.routes))
        async with (
            httpx.AsyncClient(transport=transport) as client,
            httpx.AsyncClient(trust_env=False, timeout=60) as outside,
        ):
            answer = await client.get(url, headers=headers)
            return await outside.get(answer.headers["location"]) if follow and answer.status_code == 302 else answer


class Zip:
    """The contents of an export."""

    def __init__(self, content: bytes) -> None:
        self._zip = zipfile.ZipFile(io.BytesIO(content))
        assert self._zip.testzip() is None
        self.content = content

    @property
    def names(self) -> list[str]:
        return self._zip.namelist()

    def read(self, name: str) -> bytes:
        return self._zip.read(name)

    def lines(self, section: str) -> list[Json]:
        return [orjson.loads(line) for line in self.read(f"{section}.jsonl").splitlines()]

    def everything(self) -> str:
        """Return all files together as text."""
        return "\n".join(self.read(name).decode("utf-8", "replace") for name in self.names)


async def download(api: Api, user: str) -> Zip:
    """Return the contents of a new export."""
    answer = await get(api, (await export(api, user))["url"])
    assert answer.status_code == 200
    return Zip(answer.content)
