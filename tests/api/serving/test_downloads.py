"""Reading files at their addresses: who may, what is answered, and what browsers may do with it."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from structlog.testing import capture_logs

from resolvers.base.file_addresses import FileAddresses
from server.files.headers import disposition
from store.base.ids import FileId
from store.files.file import FileState
from tests.api.serving.conftest import HOST, FileServer
from tests.clock import ManualClock

TEXT = b"0123456789" * 10


async def test_a_file_is_read_without_a_token(server: FileServer) -> None:
    file = await server.add(TEXT, name="notes.txt")
    answer = await server.get(file)
    assert (answer.status_code, answer.content) == (200, TEXT)
    headers = answer.headers
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert headers["content-length"] == "100"
    assert headers["content-disposition"] == 'inline; filename="notes.txt"'
    assert headers["accept-ranges"] == "bytes"
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["content-security-policy"].endswith("sandbox")
    assert headers["cross-origin-resource-policy"] == "cross-origin"
    assert headers["referrer-policy"] == "no-referrer"
    age = re.fullmatch(r"private, max-age=(\d+), immutable", headers["cache-control"])
    assert age is not None and 3590 <= int(age[1]) <= 3900


async def test_head_answers_the_same_headers_without_a_body(server: FileServer) -> None:
    file = await server.add(TEXT)
    got, head = await server.get(file), await server.http.head(server.path(file), headers={"range": "bytes=0-1"})
    assert (head.status_code, head.content) == (200, b"")
    ignored = {"date", "x-request-id", "cache-control"}
    assert {name: head.headers[name] for name in head.headers if name not in ignored} == {
        name: got.headers[name] for name in got.headers if name not in ignored
    }


async def test_an_altered_address_is_refused(server: FileServer) -> None:
    file, other = await server.add(TEXT, name="a.txt"), await server.add(TEXT, name="a.txt")
    path = server.path(file)
    until = re.search(r"until=(\d+)", path)
    assert until is not None
    later = path.replace(until[1], str(int(until[1]) + 300))
    altered = [
        path.replace(f"f_{file.id}", f"f_{other.id}"),
        path.replace("/file/", "/320/"),
        path.replace("a.txt", "a.html"),
        path.replace("a.txt", "b/../a.txt"),
        path.replace("a.txt", "b%2F..%2Fa.txt"),
        later,
        path.replace("until=", "until=0"),
        path.replace("sig=", "sig=A"),
        path[:-1],
        path.partition("?")[0],
        path.replace(f"f_{file.id}", f"f_0{file.id}"),
        path.replace(f"f_{file.id}", "f_"),
        path.replace(f"f_{file.id}", "..%2F..%2Fetc%2Fpasswd"),
        path.replace("/file/", "/file%00/"),
        path.replace("/file/", "/%2e%2e/"),
    ]
    for each in altered:
        request = f"GET {each} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        answer = await server.send_raw(request.encode())
        assert answer.startswith(b"HTTP/1.1 403 "), each
        assert TEXT not in answer
        assert b"cache-control: no-store" in answer
    assert (await server.http.get(path)).status_code == 200


async def test_an_expired_address_and_one_of_another_key_are_refused(server: FileServer) -> None:
    file, store = await server.add(TEXT), server.app.store
    key, now = store.deployment.file_address_key, store.clock.now_ms()
    assert key is not None
    for made_at, used, expected in (
        (now - 3_900_000, key, 403),
        (now, bytes(32), 403),
        (now - 3_000_000, key, 200),
    ):
        issuer = FileAddresses(HOST, ManualClock(made_at), lambda used=used: [used])  # type: ignore[misc]
        path = issuer.file(file.id, file.filename).removeprefix(HOST)
        assert (await server.http.get(path)).status_code == expected


async def test_a_file_that_is_not_ready_or_is_removed_is_not_found(server: FileServer) -> None:
    store = server.app.store
    file = await server.add(TEXT)
    path = server.path(file)
    assert (await server.http.get(path)).status_code == 200
    # As a recall does it: the bytes are still there.
    assert await store.files._update({"_id": int(file.id)}, {"$set": {"rm": store.clock.now_ms()}})
    answer = await server.http.get(path)
    assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store")
    for state in FileState:
        file = await server.add(TEXT)
        assert await store.files._update({"_id": int(file.id)}, {"$set": {"st": state.value, "x": 1}})
        answer = await server.get(file)
        assert answer.status_code == (200 if state is FileState.READY else 404)
    unknown = server.app.addresses.file(FileId(12345), "a.txt").removeprefix(HOST)
    assert (await server.http.get(unknown)).status_code == 404
    # A blob that is gone before its row says so.
    file = await server.add(TEXT)
    await store.blobs.delete([f"{file.id}/test"])
    assert (await server.get(file)).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_other_methods_are_refused(server: FileServer, method: str) -> None:
    file = await server.add(TEXT)
    answer = await server.http.request(method, server.path(file))
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


async def test_pages_of_any_origin_may_read_a_file_whose_address_they_have(server: FileServer) -> None:
    file = await server.add(TEXT)
    answer = await server.get(file, origin="https://elsewhere.example")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers
    preflight = await server.http.options(server.path(file), headers={"origin": "https://elsewhere.example"})
    assert (preflight.status_code, preflight.headers["access-control-allow-methods"]) == (204, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize(
    "content_type",
    [
        "image/svg+xml",
        "text/html",
        "application/xhtml+xml",
        "text/xml",
        "application/xml",
        "text/javascript",
        "text/css",
        "application/zip",
        "application/octet-stream",
        "multipart/x-mixed-replace",
        "message/rfc822",
    ],
)
async def test_types_that_browsers_may_run_are_downloads_without_a_type(server: FileServer, content_type: str) -> None:
    file = await server.add(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", content_type, "a.svg")
    headers = (await server.get(file)).headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"] == 'attachment; filename="a.svg"'
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "content_type", ["image/png", "image/jpeg", "image/gif", "image/webp", "audio/mpeg", "video/mp4", "application/pdf"]
)
async def test_safe_types_are_displayed(server: FileServer, content_type: str) -> None:
    headers = (await server.get(await server.add(TEXT, content_type, "a.bin"))).headers
    assert headers["content-type"] == content_type
    assert headers["content-disposition"].startswith("inline;")
    assert headers["content-security-policy"].endswith("sandbox")


@pytest.mark.parametrize(
    ("name", "fallback"),
    [
        ('a"b.txt', "a_b.txt"),
        ("a\\b.txt", "a_b.txt"),
        ("100%.txt", "100_.txt"),
        ("Grüße 🎉.txt", "Gr__e _.txt"),
        ("a;b=c.txt", None),
        ("..", None),
        ("\u202etxt.exe", "_txt.exe"),
    ],
)
async def test_a_name_is_encoded_in_the_header(server: FileServer, name: str, fallback: str | None) -> None:
    answer = await server.get(await server.add(TEXT, name=name))
    assert answer.status_code == 200
    expected = f'inline; filename="{fallback or name}"'
    if fallback is not None:
        expected += f"; filename*=UTF-8''{quote(name, safe='')}"
    assert answer.headers["content-disposition"] == expected


def test_a_name_cannot_end_the_header() -> None:
    value = disposition("text/plain", "a\r\nset-cookie: x=1\x00\x7f.txt")
    assert value.isprintable() and value.isascii()
    assert value.startswith("inline; filename=\"a__set-cookie_ x=1__.txt\"; filename*=UTF-8''a%0D%0Aset-cookie%3A%20x")


async def test_neither_names_nor_signatures_are_logged(server: FileServer) -> None:
    file = await server.add(TEXT, name="secret-plan.txt")
    with capture_logs() as logs:
        await server.get(file)
        await server.http.get(server.path(file)[:-1])
    lines = [line for line in logs if line["event"] == "request"]
    assert [(line["path"], line["status"]) for line in lines] == [
        (f"/files/f_{file.id}/file", 200),
        (f"/files/f_{file.id}/file", 403),
    ]
    assert "secret-plan" not in str(logs) and "sig" not in str(logs)
