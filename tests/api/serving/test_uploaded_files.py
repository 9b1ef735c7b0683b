"""From the upload of a file to its bytes at the addresses that the API issues."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from tests.api.client import Refusal, private_id
from tests.api.files.calls import ATTACHMENT, BYTES, complete, create_upload, find_file
from tests.api.serving.conftest import HOST, FileServer
from tests.api.serving.test_thumbnails import picture

THUMBNAIL = "query ($id: ID!, $width: Int) { attachment(id: $id) { thumbnailUrl(width: $width) } }"


async def upload(server: FileServer, user: str, conversation: str, content: bytes, **fields: Any) -> Any:
    """Return a file that was sent over HTTP."""
    created = await create_upload(server.api, user, conversation, content, **fields)
    path = created["url"].removeprefix(HOST)
    assert (await server.http.put(path, content=content)).status_code == 204
    return await complete(server.api, user, created["id"])


async def test_the_owner_reads_back_what_was_sent(server: FileServer) -> None:
    alice, bob = await server.api.create_users("alice", "bob")
    file = await upload(server, alice, private_id(alice, bob), BYTES)
    answer = await server.http.get(file["url"].removeprefix(HOST))
    assert (answer.content, answer.headers["content-disposition"]) == (BYTES, 'inline; filename="notes.txt"')
    assert file["thumbnailUrl"] is None


async def test_a_page_is_served_as_a_download(server: FileServer) -> None:
    alice, bob = await server.api.create_users("alice", "bob")
    page = b"<!doctype html><html><script>alert(1)</script></html>"
    for name in ("page.html", "photo.png"):
        file = await upload(server, alice, private_id(alice, bob), page, filename=name, contentType="image/png")
        answer = await server.http.get(file["url"].removeprefix(HOST))
        assert answer.headers["content-type"] in ("application/octet-stream", "text/plain; charset=utf-8")
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_images_have_thumbnails_that_are_never_larger(server: FileServer) -> None:
    alice, bob = await server.api.create_users("alice", "bob")
    file = await upload(server, alice, private_id(alice, bob), picture(700, 350), filename="a.png")
    for asked, width in ((None, 320), (100, 160), (321, 640), (641, 700), (5000, 700)):
        found = await server.api.data(alice, THUMBNAIL, id=file["id"], width=asked)
        answer = await server.http.get(found["attachment"]["thumbnailUrl"].removeprefix(HOST))
        with Image.open(io.BytesIO(answer.content)) as image:
            assert image.width == width
    for refused in (0, -1):
        refusal = await server.api.expect_refusal(alice, THUMBNAIL, id=file["id"], width=refused)
        assert refusal == Refusal("INVALID_INPUT", "width")


async def test_no_address_is_issued_before_a_file_is_ready_and_once_it_is_removed(server: FileServer) -> None:
    alice, bob = await server.api.create_users("alice", "bob")
    created = await create_upload(server.api, alice, private_id(alice, bob))
    found = await find_file(server.api, alice, created["id"])
    assert found is not None and found["url"] is found["thumbnailUrl"] is None
    file = await upload(server, alice, private_id(alice, bob), BYTES)
    number, files, clock = int(file["id"][2:]), server.app.store.files, server.app.store.clock
    # As a recall does it.
    assert await files._update({"_id": number}, {"$set": {"rm": clock.now_ms()}})
    found = (await server.api.data(alice, ATTACHMENT, id=file["id"]))["attachment"]
    assert found["url"] is found["thumbnailUrl"] is None
    assert (await server.http.get(file["url"].removeprefix(HOST))).status_code == 404


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
async def test_the_address_of_an_upload_only_takes_bytes(server: FileServer, method: str) -> None:
    alice, bob = await server.api.create_users("alice", "bob")
    created = await create_upload(server.api, alice, private_id(alice, bob))
    path = created["url"].removeprefix(HOST)
    assert (await server.http.request(method, path)).status_code == 405
    assert (await server.http.get(path.replace("?", "/file/notes.txt?"))).status_code == 403


async def test_pages_of_any_origin_may_send_a_file_to_an_address_they_have(server: FileServer) -> None:
    alice, bob = await server.api.create_users("alice", "bob")
    created = await create_upload(server.api, alice, private_id(alice, bob))
    path, origin = created["url"].removeprefix(HOST), {"origin": "https://elsewhere.example"}
    preflight = await server.http.options(path, headers=origin | {"access-control-request-method": "PUT"})
    assert (preflight.status_code, preflight.headers["access-control-allow-methods"]) == (204, "PUT, OPTIONS")
    for content, status in ((BYTES + b"!", 413), (BYTES, 204)):
        answer = await server.http.put(path, content=content, headers=origin)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, "*")
