"""Files in a bucket of S3: clients send and read the bytes themselves.

moto's server compares neither lengths nor checksums, so Confab's own comparison is what these tests see.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from server.files.routes import file_endpoints
from server.files.streaming import Downloads
from server.overload.load_shedding import LoadShedding
from store.files.blobs.s3_signing import S3Options
from tests.api.client import Api, Json, Refusal, private_id
from tests.api.conftest import OpenApi
from tests.api.files.calls import BYTES, COMPLETE, complete, create_upload, put, rows, sha256

FIELD = Refusal("INVALID_INPUT", "uploadId")


def settings_of(bucket: S3Options) -> dict[str, Any]:
    return {
        "blob_store": "s3",
        "s3_bucket": bucket.bucket,
        "s3_endpoint": bucket.endpoint,
        "s3_access_key": bucket.access_key,
        "s3_secret_key": bucket.secret_key,
    }


@pytest.fixture(scope="module")
def bucket(s3_options: S3Options) -> S3Options:
    bucket = replace(s3_options, bucket="confab-api")
    httpx.put(bucket.address(), trust_env=False, timeout=60).raise_for_status()
    return bucket


@pytest.fixture(scope="module")
async def process(open_api: OpenApi, bucket: S3Options) -> AsyncIterator[Api]:
    async with open_api("s3", **settings_of(bucket)) as api:
        yield api


async def send(upload: Json, content: bytes = BYTES) -> None:
    """Send bytes as a client does: to the address, with the method and the headers."""
    headers = {header["name"]: header["value"] for header in upload["headers"]}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        sent = await client.request(upload["method"], upload["url"], headers=headers, content=content)
    assert sent.status_code == 200


async def read(api: Api, url: str, **headers: str) -> tuple[httpx.Response, httpx.Response]:
    """Return Confab's answer to a GET, and that of the address to which it redirects."""
    async with AsyncExitStack() as stack:
        pictures = api.services.pictures
        routes = file_endpoints(api.services.app, pictures, Downloads(10), LoadShedding(10, 10), stack).routes
        transport = httpx.ASGITransport(Starlette(routes=routes))
        async with (
            httpx.AsyncClient(transport=transport) as client,
            httpx.AsyncClient(trust_env=False, timeout=60) as outside,
        ):
            answer = await client.get(url)
            return answer, await outside.get(answer.headers["location"], headers=headers)


async def blobs_of(api: Api, upload: Json) -> list[str]:
    listed = [name async for page in api.services.app.store.blobs.list_names() for name in page]
    return [name for name in listed if name.startswith(f"{upload['id'][2:]}/")]


@pytest.mark.parametrize("checksum", [sha256(BYTES), None])
async def test_a_file_is_sent_to_the_bucket_and_read_from_it(api: Api, checksum: str | None) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob), sha256=checksum)
    assert "/confab-api/" in upload["url"] and upload["method"] == "PUT"
    assert [header["name"] for header in upload["headers"]] == ["x-amz-checksum-sha256"] * bool(checksum)
    await send(upload)
    done = await complete(api, alice, upload["id"])
    assert (done["state"], done["sizeBytes"]) == ("READY", len(BYTES))
    redirect, answer = await read(api, done["url"], range="bytes=5-8")
    assert redirect.status_code == 302
    assert (answer.status_code, answer.content) == (206, BYTES[5:9])
    assert answer.headers["content-type"].startswith("text/plain")
    assert "notes.txt" in answer.headers["content-disposition"]


async def test_bytes_that_were_not_announced_are_refused(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob), sha256=sha256(BYTES))
    before = rows(api)
    assert await api.expect_refusal(alice, COMPLETE, id=upload["id"]) == FIELD
    assert rows(api) == before
    for content in (BYTES + b"!", BYTES[1:], BYTES.swapcase()):
        await send(upload, content)
        assert await api.expect_refusal(alice, COMPLETE, id=upload["id"]) == FIELD
    assert rows(api)[-1]["st"] == "U"
    await send(upload)
    assert (await complete(api, alice, upload["id"]))["state"] == "READY"


async def test_an_upload_that_is_repeated_later_changes_nothing_for_readers(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob))
    await send(upload)
    done = await complete(api, alice, upload["id"])
    await send(upload, b"<script>.."[: len(BYTES)])
    assert await complete(api, alice, upload["id"]) == done
    _, answer = await read(api, done["url"])
    assert answer.content == BYTES


async def test_every_object_in_the_bucket_is_in_a_row(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob))
    await send(upload)
    assert len(await blobs_of(api, upload)) == 1
    await complete(api, alice, upload["id"])
    known = {name for row in rows(api) for name in row["b"]}
    assert {*await blobs_of(api, upload)} <= known
    assert (await put(api, upload["url"])).status_code >= 400


async def test_files_are_unavailable_without_the_bucket_and_messages_are_not(
    open_api: OpenApi, bucket: S3Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.files.blobs.s3._PAUSE_SECONDS", 0.0)
    async with open_api("s3", **settings_of(replace(bucket, endpoint="http://127.0.0.1:1"))) as api:
        alice, bob = await api.create_users("alice", "bob")
        upload = await create_upload(api, alice, private_id(alice, bob))
        assert (await api.expect_refusal(alice, COMPLETE, id=upload["id"])).code == "UNAVAILABLE"
        assert (await api.send(alice, bob, "hello"))["message"]["seq"] == 1
