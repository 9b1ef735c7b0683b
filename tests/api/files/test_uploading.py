"""From the PUT of the bytes to the complete file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from server.files.body_pace import expect_progress
from server.files.upload_endpoint import UploadEndpoint
from server.http.request import BadRequest
from store.base.ids import FileId
from store.files.file_store import MAX_BLOBS
from tests.api.client import Api, Refusal, private_id
from tests.api.files.calls import (
    BYTES,
    CANCEL,
    COMPLETE,
    blob_names,
    complete,
    create_upload,
    find_file,
    put,
    rows,
    sha256,
    upload_file,
)

FIELD = Refusal("INVALID_INPUT", "uploadId")
GONE = Refusal("NOT_FOUND", "uploadId")


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def blobs_of(api: Api, upload: str) -> set[str]:
    return {name for name in blob_names(api) if name.startswith(f"{upload[2:]}/")}


async def test_a_file_is_ready_when_its_upload_is_complete(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    done = await upload_file(api, alice, private_id(alice, bob), sha256=sha256(BYTES))
    assert (done["state"], done["sizeBytes"], done["contentType"]) == ("READY", len(BYTES), "text/plain")
    assert done["url"] is not None and done["thumbnailUrl"] is None
    assert await find_file(api, alice, done["id"]) == done
    assert await find_file(api, bob, done["id"]) is None
    (name,) = blobs_of(api, done["id"])
    assert b"".join([piece async for piece in api.services.app.store.blobs.read(name)]) == BYTES


async def test_completing_twice_gives_the_same_answer(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob))
    await put(api, upload["url"])
    answers = await asyncio.gather(*(complete(each, alice, upload["id"]) for each in (api, other_api) * 3))
    assert all(answer == answers[0] for answer in answers)
    assert await complete(api, alice, upload["id"]) == answers[0]
    assert len(blobs_of(api, upload["id"])) == 1


async def test_an_upload_without_bytes_cannot_be_completed(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob))
    before = rows(api)
    assert await api.expect_refusal(alice, COMPLETE, id=upload["id"]) == FIELD
    assert rows(api) == before


async def test_others_can_neither_complete_nor_cancel_an_upload(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob))
    await put(api, upload["url"])
    before = rows(api)
    for user, id in ((bob, upload["id"]), (alice, "f_1"), (alice, "x"), (alice, "m_1")):
        assert await api.expect_refusal(user, COMPLETE, id=id) == GONE
        assert await api.data(user, CANCEL, id=id) == {"cancelUpload": False}
    assert rows(api) == before


async def test_a_cancelled_upload_is_gone(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for content in (None, BYTES):
        upload = await create_upload(api, alice, private_id(alice, bob))
        if content is not None:
            await put(api, upload["url"], content)
        assert await api.data(alice, CANCEL, id=upload["id"]) == {"cancelUpload": True}
        assert await api.data(alice, CANCEL, id=upload["id"]) == {"cancelUpload": False}
        assert await api.expect_refusal(alice, COMPLETE, id=upload["id"]) == GONE
        assert (await put(api, upload["url"])).status_code == 404
        found = await find_file(api, alice, upload["id"])
        assert found is not None and (found["state"], found["url"]) == ("REMOVED", None)


async def test_the_last_whole_body_counts(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob))
    for content in (b"first body", b"other body"):
        assert (await put(api, upload["url"], content)).status_code == 204
        assert len(blobs_of(api, upload["id"])) == 1
    assert (await put(api, upload["url"], b"short")).status_code == 400
    done = await complete(api, alice, upload["id"])
    (name,) = blobs_of(api, upload["id"])
    assert b"".join([piece async for piece in api.services.app.store.blobs.read(name)]) == b"other body"
    refused = await put(api, upload["url"])
    assert (refused.status_code, refused.json()["errors"][0]["extensions"]["code"]) == (409, "INVALID_INPUT")
    assert await complete(api, alice, upload["id"]) == done


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"longer than ten bytes", 413, "TOO_LARGE"),
        (b"short", 400, "INVALID_INPUT"),
        (b"", 400, "INVALID_INPUT"),
        (b"ten bytes.", 400, "INVALID_INPUT"),
    ],
)
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_body_that_was_not_announced_is_refused(
    api: Api, body: bytes, status: int, code: str, is_chunked: bool
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob), sha256=sha256(BYTES))
    refused = await put(api, upload["url"], in_pieces(body[:3], body[3:]) if is_chunked else body)
    (error,) = refused.json()["errors"]
    assert (refused.status_code, error["extensions"]["code"]) == (status, code)
    assert blobs_of(api, upload["id"]) == set()
    assert await api.expect_refusal(alice, COMPLETE, id=upload["id"]) == FIELD
    assert (await put(api, upload["url"])).status_code == 204
    assert (await complete(api, alice, upload["id"]))["state"] == "READY"


@pytest.mark.parametrize(
    ("header", "value", "word"),
    [
        ("content-range", "bytes 0-9/10", "whole file"),
        ("content-encoding", "gzip", "as they are"),
        ("content-encoding", "identity, br", "as they are"),
    ],
)
async def test_parts_and_encoded_bodies_are_refused(api: Api, header: str, value: str, word: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob))
    before = rows(api)
    refused = await put(api, upload["url"], **{header: value})
    (error,) = refused.json()["errors"]
    assert (refused.status_code, error["extensions"]["code"]) == (400, "INVALID_INPUT")
    assert word in error["message"]
    assert rows(api) == before and blobs_of(api, upload["id"]) == set()
    assert (await put(api, upload["url"], **{"content-encoding": "identity"})).status_code == 204


async def test_a_body_that_is_too_long_is_refused_before_its_end(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob))
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 1_000_000:
            sent += 100
            yield b"x" * 100

    # httpx's transport reads the whole body only if the application does.
    assert (await put(api, upload["url"], endless())).status_code == 413
    assert sent == 100


async def test_an_address_that_was_changed_is_refused(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    one, two = [await create_upload(api, alice, private_id(alice, bob)) for _ in range(2)]
    url = one["url"]
    for changed in (
        url.replace(one["id"], two["id"]),
        url.replace("until=", "until=1"),
        url.split("&sig=")[0],
        url.split("?")[0],
        url.replace(one["id"], "x"),
        url[:-3] + ("aaa" if url[-3:] != "aaa" else "bbb"),
    ):
        refused = await put(api, changed)
        assert (refused.status_code, refused.json()["errors"][0]["extensions"]["code"]) == (403, "FORBIDDEN"), changed
    assert blobs_of(api, one["id"]) | blobs_of(api, two["id"]) == set()


async def test_the_address_of_an_unknown_file_is_refused(api: Api) -> None:
    app = api.services.app
    url = app.addresses.upload(FileId(7), app.store.clock.now_ms() + 60_000)
    refused = await put(api, url)
    assert (refused.status_code, refused.json()["errors"][0]["extensions"]["code"]) == (404, "NOT_FOUND")


async def test_an_address_that_has_expired_is_refused(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob))
    app = api.services.app
    url = app.addresses.upload(FileId(int(upload["id"][2:])), app.store.clock.now_ms() - 1_000)
    assert (await put(api, url)).status_code == 403


async def test_bodies_at_once_are_limited_by_user_and_process(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    endpoint = UploadEndpoint(api.services.app, max_uploads=3, max_per_user=2)
    uploads = [await create_upload(api, alice, private_id(alice, bob)) for _ in range(3)]
    other = [await create_upload(api, user, private_id(alice, user)) for user in (bob, carol)]
    held, waiting = asyncio.Event(), asyncio.Semaphore(0)

    async def slow() -> AsyncIterator[bytes]:
        yield BYTES[:5]
        waiting.release()
        await held.wait()
        yield BYTES[5:]

    slow_puts = [asyncio.create_task(put(api, upload["url"], slow(), endpoint)) for upload in uploads[:2]]
    for _ in range(2):
        await waiting.acquire()
    refused = await put(api, uploads[2]["url"], endpoint=endpoint)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    slow_puts.append(asyncio.create_task(put(api, other[0]["url"], slow(), endpoint)))
    await waiting.acquire()
    refused = await put(api, other[1]["url"], endpoint=endpoint)
    assert (refused.status_code, refused.json()["errors"][0]["extensions"]["code"]) == (503, "UNAVAILABLE")
    held.set()
    assert [answer.status_code for answer in await asyncio.gather(*slow_puts)] == [204] * 3
    assert (await put(api, other[1]["url"], endpoint=endpoint)).status_code == 204


@pytest.mark.parametrize(("seconds", "status"), [(59, 204), (62, 408)])
async def test_a_body_that_is_too_slow_gives_its_place_back(api: Api, seconds: int, status: int) -> None:
    alice, bob = await api.create_users("alice", "bob")
    now = 0.0
    endpoint = UploadEndpoint(api.services.app, max_uploads=1, clock=lambda: now)
    # At the slowest pace these bytes take 40 s. A body may be late by 20 s.
    pieces = [b"x" * 16_384] * 40
    upload, other = [await create_upload(api, alice, private_id(alice, bob), b"".join(pieces)) for _ in range(2)]

    async def slow() -> AsyncIterator[bytes]:
        nonlocal now
        for piece in pieces:
            now += seconds / len(pieces)
            yield piece

    answer = await put(api, upload["url"], slow(), endpoint)
    assert answer.status_code == status
    if status == 408:
        (error,) = answer.json()["errors"]
        assert error["extensions"]["code"] == "INVALID_INPUT" and "too slowly" in error["message"]
        assert blobs_of(api, upload["id"]) == set()
        assert await api.expect_refusal(alice, COMPLETE, id=upload["id"]) == FIELD
    assert (await put(api, other["url"], b"".join(pieces), endpoint)).status_code == 204


async def test_a_body_may_be_late_by_as_much_again_after_it_was_fast(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    now = 0.0
    content = b"x" * 700_000
    upload = await create_upload(api, alice, private_id(alice, bob), content)

    async def interrupted() -> AsyncIterator[bytes]:
        nonlocal now
        for start in range(0, len(content), 350_000):
            now += 19
            yield content[start : start + 350_000]

    endpoint = UploadEndpoint(api.services.app, clock=lambda: now)
    assert (await put(api, upload["url"], interrupted(), endpoint)).status_code == 204


async def test_a_body_that_stops_is_ended() -> None:
    ended = asyncio.Event()

    async def stopping() -> AsyncIterator[bytes]:
        yield b"some bytes"
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    body = expect_progress(stopping(), late_seconds=0.05)
    assert await anext(body) == b"some bytes"
    with pytest.raises(BadRequest) as refused:
        await anext(body)
    assert refused.value.status == 408 and ended.is_set()


async def test_an_upload_has_a_bounded_number_of_attempts(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob))
    names = [f"{upload['id'][2:]}/upload-{number}" for number in range(MAX_BLOBS)]
    api.database["files"].update_one({"_id": int(upload["id"][2:])}, {"$set": {"b": names}})
    refused = await put(api, upload["url"])
    assert refused.status_code == 409 and "too often" in refused.json()["errors"][0]["message"]


async def test_files_of_one_user_are_inspected_in_turn_and_those_of_others_meanwhile(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    uploads = {user: await create_upload(api, user, private_id(alice, bob)) for user in (alice, bob)}
    for upload in uploads.values():
        assert (await put(api, upload["url"])).status_code == 204
    inspector = api.services.app.inspector
    monkeypatch.setattr(inspector._folders, "_owner_wait_seconds", 0.01)
    async with inspector.folder(alice):
        assert (await api.expect_refusal(alice, COMPLETE, id=uploads[alice]["id"])).code == "UNAVAILABLE"
        assert (await complete(api, bob, uploads[bob]["id"]))["state"] == "READY"
    assert (await complete(api, alice, uploads[alice]["id"]))["state"] == "READY"
