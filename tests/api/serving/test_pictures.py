"""Pictures of embeds, which Confab serves for other sites."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from resolvers.base.errors import Unavailable
from server.cli.serve import _config
from server.files.pictures import PICTURE_PATTERN, PictureDownloads
from server.settings import load_settings
from store.files.file import File
from tests.api.serving.conftest import HOST, FileServer
from tests.protocol.serving import PATIENCE, serving

SOURCE = "https://site.example/a.png?x=1&y=a+b%20c#d"


class Site:
    """Stands for the fetcher: counts what it is asked for."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.asked: list[str] = []
        self.is_down = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def find(self, url: str) -> File | None:
        self.asked.append(url)
        await self.may_answer.wait()
        if self.is_down:
            raise Unavailable("the site does not answer")
        return self.files.get(url)


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


@pytest.fixture(scope="module")
async def pictures(server: FileServer, site: Site) -> AsyncIterator[httpx.AsyncClient]:
    async with AsyncExitStack() as stack:
        endpoint = PictureDownloads(server.app, server.downloads, site.find)
        app = Starlette(routes=[Route(PICTURE_PATTERN, endpoint)])
        served = await stack.enter_async_context(serving(_config(app, load_settings())))
        url = f"http://127.0.0.1:{served.port}"
        yield await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=PATIENCE))


async def test_a_picture_is_served_from_its_signed_address(
    server: FileServer, pictures: httpx.AsyncClient, site: Site
) -> None:
    site.files[SOURCE] = await server.add(b"pixels", "image/png", "picture", is_image=True, width=1, height=1)
    path = server.app.addresses.picture(SOURCE).removeprefix(HOST)
    answer = await pictures.get(path)
    assert (answer.status_code, answer.content) == (200, b"pixels")
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["content-disposition"] == "inline"
    assert answer.headers["content-security-policy"].endswith("sandbox")
    assert (await pictures.get(path, headers={"range": "bytes=1-2"})).content == b"ix"
    assert (await pictures.get(path, headers={"if-none-match": answer.headers["etag"]})).status_code == 304


async def test_nothing_is_fetched_for_an_address_that_was_not_issued(
    server: FileServer, pictures: httpx.AsyncClient, site: Site
) -> None:
    site.asked.clear()
    path = server.app.addresses.picture(SOURCE).removeprefix(HOST)
    other = server.app.addresses.picture("http://169.254.169.254/").removeprefix(HOST)
    altered = [
        path.replace("site.example", "127.0.0.1"),
        path.replace("sig=", "sig=A"),
        path.replace("until=", "until=9"),
        path.partition("&url=")[0] + "&url=" + other.partition("&url=")[2],
        path.partition("?")[0],
        other.partition("?")[0] + "?" + path.partition("?")[2],
    ]
    for each in altered:
        assert (await pictures.get(each)).status_code == 403
    assert (await pictures.post(path)).status_code == 405
    assert site.asked == []


async def test_a_picture_that_cannot_be_had_is_refused(
    server: FileServer, pictures: httpx.AsyncClient, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = server.app.addresses.picture("https://site.example/none").removeprefix(HOST)
    answer = await pictures.get(path)
    assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store")
    monkeypatch.setattr(site, "is_down", True)
    answer = await pictures.get(path)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")


async def test_requests_that_wait_for_sites_are_bounded(
    server: FileServer, pictures: httpx.AsyncClient, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.files.pictures.MOST_WAITING", 2)
    path = server.app.addresses.picture("https://site.example/slow").removeprefix(HOST)
    site.asked.clear()
    site.may_answer.clear()
    waiting = [asyncio.create_task(pictures.get(path)) for _ in range(3)]
    (done,), _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert (await done).status_code == 503
    site.may_answer.set()
    answers = await asyncio.gather(*waiting)
    assert sorted(answer.status_code for answer in answers) == [404, 404, 503]
    assert len(site.asked) == 2


@pytest.mark.parametrize("source", ["http://127.0.0.1/a.png", "http://[::ffff:10.0.0.1]/a.png", "file:///etc/passwd"])
async def test_pictures_are_not_fetched_from_private_addresses(server: FileServer, source: str) -> None:
    answer = await server.http.get(server.app.addresses.picture(source).removeprefix(HOST))
    assert answer.status_code == 404
