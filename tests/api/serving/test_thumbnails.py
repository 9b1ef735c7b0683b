"""Thumbnails: which ones there are, and that each is made once."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterable
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from resolvers.base.errors import Unavailable
from resolvers.files.inspection.inspector import Inspector
from resolvers.files.thumbnails import Thumbnails
from resolvers.files.variants import variant_for
from store.base.errors import Unreachable
from store.base.ids import UserId
from store.files.blobs.base import BlobInfo
from store.files.file import File
from tests.api.serving.conftest import FileServer


def picture(width: int, height: int) -> bytes:
    """Return a PNG of these dimensions."""
    stream = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(stream, "PNG")
    return stream.getvalue()


async def add_image(server: FileServer, width: int, height: int) -> File:
    size = {"width": width, "height": height}
    return await server.add(picture(width, height), "image/png", "a.png", is_image=True, **size)


async def blobs_of(server: FileServer, file: File) -> set[str]:
    """Return the names of what lies in the store for a file."""
    return {
        name async for page in server.app.store.blobs.list_names() for name in page if name.startswith(f"{file.id}/")
    }


@pytest.mark.parametrize(
    ("image", "asked", "variant"),
    [
        (2000, 1, 160),
        (2000, 160, 160),
        (2000, 161, 320),
        (2000, 640, 640),
        (2000, 1280, 1280),
        (2000, 5000, 1280),
        (1280, 1280, None),
        (1280, 5000, None),
        (320, 320, None),
        (320, 160, 160),
        (321, 300, 320),
        (100, 1, None),
        (None, 320, None),
    ],
)
def test_the_width_is_the_smallest_that_is_not_below_and_never_above_the_image(
    image: int | None, asked: int, variant: int | None
) -> None:
    assert variant_for(image, asked) == variant


async def test_a_thumbnail_is_made_once_for_all_who_ask(server: FileServer) -> None:
    file = await add_image(server, 700, 350)
    answers = await asyncio.gather(*(server.get(file, 320) for _ in range(4)))
    for answer in answers:
        assert answer.status_code == 200
        with Image.open(io.BytesIO(answer.content)) as image:
            assert (image.size, answer.headers["content-type"]) == ((320, 160), f"image/{image.format}".lower())
        assert answer.headers["content-disposition"] == "inline"
    assert len({answer.headers["etag"] for answer in answers}) == 1
    row = await server.find(file.id)
    assert row is not None
    assert {*row.thumbnails} == {320}
    assert await blobs_of(server, file) == {*row.blobs} == {f"{file.id}/test", row.thumbnails[320]}
    # It is kept, and has its own ETag.
    again = await server.get(file, 320)
    assert again.content == answers[0].content
    assert (await server.get(file, 320, if_none_match=again.headers["etag"])).status_code == 304
    assert (await server.get(file)).headers["etag"] != again.headers["etag"]


async def test_a_width_above_the_image_is_answered_with_the_image(server: FileServer) -> None:
    file = await add_image(server, 200, 100)
    answer = await server.get(file, 320)
    assert answer.content == picture(200, 100)
    row = await server.find(file.id)
    assert row is not None and not row.thumbnails


@pytest.mark.parametrize("width", [200, 12, 99_999])
async def test_other_widths_and_other_files_have_no_thumbnails(server: FileServer, width: int) -> None:
    file = await add_image(server, 700, 350)
    assert (await server.get(file, width)).status_code == 404
    text = await server.add(b"text")
    assert (await server.get(text, 320)).status_code == 404
    row = await server.find(file.id)
    assert row is not None and await blobs_of(server, file) == {f"{file.id}/test"} == {*row.blobs}


class StoppedWrites:
    """A blob store whose writes wait for each other."""

    def __init__(self, server: FileServer, parties: int) -> None:
        self.blobs: Any = server.app.store.blobs
        self.barrier = asyncio.Barrier(parties)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.blobs, name)

    async def write(self, name: str, content: AsyncIterable[bytes]) -> BlobInfo:
        await self.barrier.wait()
        info: BlobInfo = await self.blobs.write(name, content)
        await self.barrier.wait()
        return info


async def test_of_two_servers_that_make_the_same_thumbnail_one_wins(server: FileServer) -> None:
    file, store = await add_image(server, 700, 350), server.app.store
    assert file.content is not None
    stopped: Any = StoppedWrites(server, 2)
    inspectors = [Inspector(), Inspector()]
    servers = [Thumbnails(store.files, stopped, inspector, store.clock) for inspector in inspectors]
    first, second = await asyncio.gather(*(each.find_or_make(file, file.content, 160) for each in servers))
    await asyncio.gather(*(inspector.close() for inspector in inspectors))
    assert first is not None and first == second
    assert servers[0].made + servers[1].made == 1
    row = await server.find(file.id)
    assert row is not None
    assert row.thumbnails == {160: first.blob}
    assert await blobs_of(server, file) == {f"{file.id}/test", first.blob}
    # The row names the other one until the sweeper has looked for it.
    assert len(row.blobs) == 3


async def test_a_thumbnail_that_is_lost_is_made_again(server: FileServer) -> None:
    file, blobs = await add_image(server, 700, 350), server.app.store.blobs
    first = await server.get(file, 320)
    row = await server.find(file.id)
    assert row is not None
    await blobs.delete([row.thumbnails[320]])
    answers = await asyncio.gather(*(server.get(file, 320) for _ in range(3)))
    assert {(answer.status_code, answer.content) for answer in answers} == {(200, first.content)}
    again = await server.find(file.id)
    assert again is not None and again.thumbnails[320] != row.thumbnails[320]
    assert await blobs.find(again.thumbnails[320]) is not None
    # Nothing is left of the attempts but the names, until the sweeper has looked for them.
    assert await blobs_of(server, file) == {f"{file.id}/test", again.thumbnails[320]}
    assert again.tidy_at_ms is not None
    await blobs.delete([*again.blobs])
    assert (await server.get(file, 320)).status_code == 404


async def test_a_file_that_is_removed_meanwhile_gets_no_thumbnail(server: FileServer) -> None:
    file, store = await add_image(server, 700, 350), server.app.store
    assert file.content is not None
    stopped: Any = StoppedWrites(server, 2)
    thumbnails = Thumbnails(store.files, stopped, server.app.inspector, store.clock)
    making = asyncio.create_task(thumbnails.find_or_make(file, file.content, 160))
    await stopped.barrier.wait()
    assert await store.files.cancel(file.id, file.owner, store.clock.now_ms())
    await stopped.barrier.wait()
    assert await making is None
    assert await blobs_of(server, file) == {f"{file.id}/test"}
    assert await thumbnails.find_or_make(file, file.content, 320) is None
    assert (await server.get(file, 320)).status_code == 404


async def test_thumbnails_of_one_owner_keep_nobody_else_from_theirs(
    server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolvers.files.thumbnails.MOST_PER_OWNER", 1)
    file, store = await add_image(server, 700, 350), server.app.store
    other = await add_image(server, 700, 350)
    assert file.content is not None
    assert other.content is not None
    thumbnails = Thumbnails(store.files, store.blobs, server.app.inspector, store.clock)
    async with server.app.inspector.folder(file.owner):
        waiting = asyncio.create_task(thumbnails.find_or_make(file, file.content, 160))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await thumbnails.find_or_make(file, file.content, 320)
        of_another = replace(other, owner=UserId("another"))
        assert await thumbnails.find_or_make(of_another, other.content, 320) is not None
        assert not waiting.done()
    assert await waiting is not None
    assert await thumbnails.find_or_make(file, file.content, 320) is not None


async def test_an_image_that_cannot_be_scaled_is_served_itself(server: FileServer) -> None:
    file = await server.add(b"no image at all", "image/png", "a.png", is_image=True, width=700, height=350)
    for _ in range(2):
        assert (await server.get(file, 320)).content == b"no image at all"


async def test_more_than_a_number_of_thumbnails_are_not_made_at_once(
    server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = await add_image(server, 700, 350)
    monkeypatch.setattr("resolvers.files.thumbnails.MOST_AT_ONCE", 0)
    answer = await server.get(file, 320)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    monkeypatch.undo()
    assert (await server.get(file, 320)).status_code == 200


async def test_a_thumbnail_that_could_not_be_stored_is_made_by_the_next_request(
    server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = await add_image(server, 700, 350)

    async def fail(name: str, content: AsyncIterable[bytes]) -> BlobInfo:
        raise Unreachable("the store has gone")

    monkeypatch.setattr(server.app.store.blobs, "write", fail)
    assert (await server.get(file, 320)).status_code == 503
    monkeypatch.undo()
    assert (await server.get(file, 320)).status_code == 200
    row = await server.find(file.id)
    assert row is not None
    # The name of the failed attempt is still there, and will be tidied.
    assert len(row.blobs) == 3
    untidy = await server.app.store.file_removals.list_untidy(server.app.store.clock.now_ms() + 600_000, 10_000)
    assert file.id in {each.id for each in untidy}
