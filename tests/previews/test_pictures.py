"""Pictures of other sites: fetched, decoded and kept like files, without an owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from resolvers.base.errors import Unavailable
from resolvers.previews.pictures import KEPT_MS, picture_number
from resolvers.web_requests.errors import FetchFailed
from store.base.errors import StoreError, Unreachable
from store.base.ids import file_id, parse_file_id
from store.checking.files.file_checks import FileBlobs, StrayBlobs
from store.files.file import FileState
from subscriptions.delivery.files.file_sweeper import FileSweeper
from tests.clock import ManualClock
from tests.files.blobs.contents import read_all
from tests.previews.conftest import Server
from tests.previews.site import Site, answer, png

HOUR_MS = 3_600_000


def picture(width: int = 400, height: int = 200) -> bytes:
    return answer(png(width, height), "image/png")


async def test_a_picture_is_a_file_without_an_owner_under_a_number_of_its_address(site: Site, server: Server) -> None:
    site.answers["/p"] = picture()
    url = site.url("/p")
    file = await server.pictures.find_or_fetch(url)
    assert file is not None
    assert file.content is not None
    assert (file.id, file.owner, file.state) == (picture_number(url), "", FileState.READY)
    assert (file.content.content_type, file.content.width, file.content.height) == ("image/png", 400, 200)
    stored = await read_all(server.store.blobs, file.content.blob)
    assert stored.startswith(b"\x89PNG")
    assert len(stored) == file.content.size
    assert file.blobs == (file.content.blob,)
    assert file.id < 0
    assert parse_file_id(file_id(file.id)) is None


async def test_a_picture_is_decoded_and_nothing_but_pixels_is_kept(site: Site, server: Server) -> None:
    secret = b"\xff\xfe 52.5200 N 13.4050 E"
    site.answers["/p"] = answer(png(40, 20) + b"<html><script>" + secret, "text/html")
    file = await server.pictures.find_or_fetch(site.url("/p"))
    assert file is not None
    assert file.content is not None
    assert secret not in await read_all(server.store.blobs, file.content.blob)


async def test_a_picture_is_fetched_once_for_all_servers(
    site: Site, server: Server, new_server: Callable[[], Server]
) -> None:
    site.answers["/p"] = picture()
    found = await asyncio.gather(*(server.pictures.find_or_fetch(site.url("/p")) for _ in range(10)))
    assert all(file == found[0] for file in found)
    assert await new_server().pictures.find_or_fetch(site.url("/p")) == found[0]
    assert site.paths == ["/p"]


async def test_servers_that_fetch_a_picture_at_the_same_time_have_one_row(
    site: Site, server: Server, new_server: Callable[[], Server]
) -> None:
    site.answers["/p"] = picture()
    found = await asyncio.gather(*(one.pictures.find_or_fetch(site.url("/p")) for one in (server, new_server())))
    row = await server.store.files.find(picture_number(site.url("/p")))
    assert row is not None
    assert row.content is not None
    assert all(file is not None and file.content == row.content for file in found)
    written = [name async for page in server.store.blobs.list_names() for name in page]
    assert set(written) <= set(row.blobs)


async def test_a_picture_is_kept_for_a_day_after_its_last_use(site: Site, server: Server, clock: ManualClock) -> None:
    site.answers["/p"] = picture()
    url, start_ms = site.url("/p"), clock.ms
    number = picture_number(url)

    async def end_ms() -> int | None:
        row = await server.store.files.find(number)
        return row.remove_at_ms if row is not None else None

    await server.pictures.find_or_fetch(url)
    assert await end_ms() == start_ms + KEPT_MS
    clock.ms += HOUR_MS // 2
    await server.pictures.find_or_fetch(url)
    assert await end_ms() == start_ms + KEPT_MS
    clock.ms += HOUR_MS
    await server.pictures.find_or_fetch(url)
    assert await end_ms() == clock.ms + KEPT_MS
    assert site.paths == ["/p"]


async def test_a_picture_that_is_due_is_not_used_and_comes_again_once_removed(
    site: Site, server: Server, clock: ManualClock
) -> None:
    site.answers["/p"] = picture()
    url, files = site.url("/p"), server.store.files
    first = await server.pictures.find_or_fetch(url)
    assert first is not None
    clock.ms += KEPT_MS + HOUR_MS
    assert [file.id for file in await server.store.file_removals.list_due(clock.ms, 10)] == [first.id]
    # A preview without its picture would be kept for a day.
    with pytest.raises(Unavailable):
        await server.pictures.find_or_fetch(url)
    assert await FileSweeper(server.store).sweep() == 1
    assert await files.find(first.id) is None
    assert [name async for page in server.store.blobs.list_names() for name in page] == []
    again = await server.pictures.find_or_fetch(url)
    assert again is not None
    assert again.content != first.content


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>no picture</html>", "image/png"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", "image/svg+xml"),
        (b"\x89PNG\r\n\x1a\n truncated", "image/png"),
        (b"%PDF-1.7", "image/jpeg"),
        (b"", "image/png"),
        (b"\x89PNG\r\n\x1a\n" + b"x" * 2_000_000, "image/png"),
    ],
    ids=["HTML", "SVG", "truncated", "PDF", "empty", "longer than uploads"],
)
async def test_anything_else_is_no_picture_and_is_not_fetched_again_for_an_hour(
    site: Site, server: Server, clock: ManualClock, body: bytes, kind: str
) -> None:
    site.answers["/p"] = answer(body, kind)
    for _ in range(3):
        assert await server.pictures.find_or_fetch(site.url("/p")) is None
    assert site.paths == ["/p"]
    assert await server.store.files.find(picture_number(site.url("/p"))) is None
    clock.ms += HOUR_MS + 1
    site.answers["/p"] = picture()
    assert await server.pictures.find_or_fetch(site.url("/p")) is not None


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/p", "http://169.254.169.254/p", "file:///p", "http://a:b@site.example/"]
)
async def test_pictures_of_refused_addresses_are_not_fetched(site: Site, server: Server, url: str) -> None:
    assert await server.pictures.find_or_fetch(url) is None
    assert site.connections == 0


async def test_a_row_that_a_dead_server_left_is_continued(site: Site, server: Server, clock: ManualClock) -> None:
    """It died after its row and the name of its blob were stored, a day ago."""
    site.answers["/p"] = picture()
    url, files = site.url("/p"), server.store.files
    first = await server.pictures.find_or_fetch(url)
    assert first is not None
    await server.store.file_removals.end_removal(replace(first, is_bound=False))
    await server.store.mongo.delete_one("files", {"_id": int(first.id)})
    left = replace(first, state=FileState.UPLOADING, content=None, uploaded=None, blobs=("lost",))
    await files.ensure(left)
    clock.ms += KEPT_MS - 1
    again = await server.pictures.find_or_fetch(url)
    assert again is not None
    assert again.content is not None
    assert again.content.blob != "lost"
    assert "lost" in again.superfluous
    row = await files.find(again.id)
    assert row is not None
    assert row.remove_at_ms == clock.ms + KEPT_MS


async def test_nothing_is_in_the_store_that_no_row_names_when_a_write_fails(
    site: Site, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.answers["/p"] = picture()
    write = server.store.blobs.write

    async def write_and_fail(name: str, content: object) -> object:
        await write(name, content)  # type: ignore[arg-type]
        raise Unreachable("no answer")

    monkeypatch.setattr(server.store.blobs, "write", write_and_fail)
    with pytest.raises(StoreError):
        await server.pictures.find_or_fetch(site.url("/p"))
    row = await server.store.files.find(picture_number(site.url("/p")))
    written = [name async for page in server.store.blobs.list_names() for name in page]
    assert row is not None
    assert (row.state, row.blobs) == (FileState.UPLOADING, tuple(written))
    monkeypatch.undo()
    assert await server.pictures.find_or_fetch(site.url("/p")) is not None


async def test_checks_know_pictures(site: Site, server: Server) -> None:
    site.answers["/p"] = picture()
    file = await server.pictures.find_or_fetch(site.url("/p"))
    assert file is not None
    assert file.content is not None
    stray, missing = StrayBlobs(server.store), FileBlobs(server.store)
    assert await stray.compare([file.content.blob]) == []
    assert await missing.compare([file_id(file.id)]) == []
    await server.store.blobs.delete([file.content.blob])
    assert len(await missing.compare([file_id(file.id)])) == 1


def test_errors_of_fetching_are_no_errors_of_the_store() -> None:
    """A StoreError means that it may succeed later."""
    assert not issubclass(FetchFailed, StoreError)
