"""Uploads that clients send to the blob store themselves, as with S3."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from store.files.blobs.base import BlobInfo, DirectUpload
from store.files.blobs.gridfs import GridFSBlobs
from tests.api.client import Api, Refusal, private_id
from tests.api.files.calls import BYTES, CANCEL, COMPLETE, blob_names, complete, create_upload, put, rows, sha256

REFUSED = Refusal("INVALID_INPUT", "uploadId")


class DirectBlobs(GridFSBlobs):
    """GridFS with addresses to which clients send bytes. Like S3 it knows no checksum, and a body may be repeated."""

    def upload_request(self, name: str, size: int, sha256: str | None, seconds: int) -> DirectUpload | None:
        return DirectUpload(f"https://bucket/{name}", "PUT", {"x-size": str(size)})

    async def find(self, name: str) -> BlobInfo | None:
        found = await super().find(name)
        return found._replace(sha256=None) if found is not None else None

    async def receive(self, url: str, content: bytes) -> None:
        """Store what a client sends."""

        async def body() -> AsyncIterator[bytes]:
            yield content

        name = url.removeprefix("https://bucket/")
        await self.delete([name])
        await self.write(name, body())


@pytest.fixture
def blobs(api: Api) -> Iterator[DirectBlobs]:
    store = api.services.app.store
    before, direct = store.blobs, DirectBlobs(store.mongo)
    object.__setattr__(store, "blobs", direct)
    yield direct
    object.__setattr__(store, "blobs", before)


async def begin(api: Api, user: str, peer: str, **fields: Any) -> dict[str, Any]:
    return await create_upload(api, user, private_id(user, peer), **fields)


async def test_an_upload_sent_to_the_store_is_completed(api: Api, blobs: DirectBlobs) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await begin(api, alice, bob, idempotencyKey="k", sha256=sha256(BYTES))
    assert upload["headers"] == [{"name": "x-size", "value": "10"}]
    again = await begin(api, alice, bob, idempotencyKey="k", sha256=sha256(BYTES))
    assert (again["id"], again["url"]) == (upload["id"], upload["url"])
    assert await api.expect_refusal(alice, COMPLETE, id=upload["id"]) == REFUSED
    for wrong in (b"short", b"longer than ten", b"ten bytes."):
        await blobs.receive(upload["url"], wrong)
        assert await api.expect_refusal(alice, COMPLETE, id=upload["id"]) == REFUSED
    await blobs.receive(upload["url"], BYTES)
    assert (await complete(api, alice, upload["id"]))["state"] == "READY"
    again = await begin(api, alice, bob, idempotencyKey="k", sha256=sha256(BYTES))
    assert (await put(api, again["url"])).status_code == 409


async def test_bytes_sent_after_the_completion_change_nothing_and_are_removed(api: Api, blobs: DirectBlobs) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await begin(api, alice, bob)
    await blobs.receive(upload["url"], BYTES)
    await complete(api, alice, upload["id"])
    await blobs.receive(upload["url"], b"<script/>!")
    (row,) = [row for row in rows(api) if row["o"] == alice]
    content = row["k"][0]
    assert b"".join([piece async for piece in blobs.read(content)]) == BYTES
    # As if hours had passed, in which the address expired.
    old = {name: row[name] - 3 * 3_600_000 for name in ("w", "ta")}
    api.database["files"].update_one({"_id": row["_id"]}, {"$set": old})
    await api.services.housekeeper.files.sweep()
    assert {name for name in blob_names(api) if name.startswith(f"{row['_id']}/")} == {content}


async def test_a_cancelled_direct_upload_is_removed_once_its_address_has_expired(api: Api, blobs: DirectBlobs) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await begin(api, alice, bob)
    assert (await api.data(alice, CANCEL, id=upload["id"]))["cancelUpload"]
    await api.services.housekeeper.files.sweep()
    await blobs.receive(upload["url"], BYTES)
    number = int(upload["id"][2:])
    assert api.database["files"].find_one({"_id": number}) is not None
    api.database["files"].update_one({"_id": number}, {"$set": {"w": 0}})
    await api.services.housekeeper.files.sweep()
    assert api.database["files"].find_one({"_id": number}) is None
    assert not any(name.startswith(f"{number}/") for name in blob_names(api))
