"""Blobs in a bucket of S3: signatures, what clients send and read themselves, memory, failures.

The bucket is one of moto's server, which checks no signature and no checksum: these are compared here with their
definition.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest

from store.base.errors import Unreachable
from store.files.blobs import s3 as module
from store.files.blobs.s3 import S3Blobs
from store.files.blobs.s3_signing import S3Options, S3Signer, to_base64
from tests.files.blobs.contents import all_names, in_parts, read_all, some_bytes

NOW = 1_369_353_600.0
"""2013-05-24T00:00:00Z, as in the examples of the documentation of S3."""

EXAMPLE = S3Options(
    "examplebucket",
    "us-east-1",
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "https://s3.amazonaws.com",
    path_style=False,
)
"""Bucket and key of these examples."""


def signature_of(method: str, url: str, headers: dict[str, str], options: S3Options) -> str:
    """Return the signature that a presigned address must have, by its definition."""
    parts = urlsplit(url)
    query = parse_qs(parts.query, keep_blank_values=True)
    pairs = sorted((quote(k, safe=""), quote(v[0], safe="")) for k, v in query.items() if k != "X-Amz-Signature")
    signed = {"host": parts.netloc} | headers
    lines = [method, parts.path, "&".join(f"{k}={v}" for k, v in pairs)]
    lines += [f"{name}:{signed[name]}" for name in sorted(signed)]
    lines += ["", ";".join(sorted(signed)), "UNSIGNED-PAYLOAD"]
    stamp = query["X-Amz-Date"][0]
    scope = f"{stamp[:8]}/{options.region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256("\n".join(lines).encode()).hexdigest()])
    key = f"AWS4{options.secret_key}".encode()
    for part in (stamp[:8], options.region, "s3", "aws4_request", text):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def test_a_signature_is_that_of_the_documentation_of_s3() -> None:
    signer = S3Signer(EXAMPLE, lambda: NOW)
    url = signer._sign_address("GET", "test.txt", NOW, 86_400, {})
    assert query_of(url)["X-Amz-Signature"] == "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    headers = signer.sign("GET", EXAMPLE.address("test.txt"), {"range": "bytes=0-9"})
    assert headers["Authorization"].endswith("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")


@pytest.mark.parametrize("sha256", [hashlib.sha256(b"abc").hexdigest(), None])
def test_an_upload_is_bound_to_its_length_and_checksum(sha256: str | None) -> None:
    signer = S3Signer(EXAMPLE, lambda: NOW)
    url, headers = signer.sign_upload("1/direct-x", 3, sha256, 3600)
    assert headers == ({"x-amz-checksum-sha256": to_base64(sha256)} if sha256 else {})
    # Browsers send it, and let no page set it.
    headers |= {"content-length": "3"}
    query = query_of(url)
    assert query["X-Amz-SignedHeaders"] == ";".join(sorted([*headers, "host"]))
    assert (query["X-Amz-Expires"], query["X-Amz-Date"]) == ("3600", "20130524T000000Z")
    assert query["X-Amz-Signature"] == signature_of("PUT", url, headers, EXAMPLE)
    for name in headers:
        assert query["X-Amz-Signature"] != signature_of("PUT", url, headers | {name: "4"}, EXAMPLE)
    assert query["X-Amz-Signature"] != signature_of("PUT", url.replace("direct-x", "direct-y"), headers, EXAMPLE)
    assert EXAMPLE.secret_key not in url and EXAMPLE.secret_key not in repr(EXAMPLE)


def test_a_download_has_its_type_and_disposition_in_the_signature() -> None:
    signer = S3Signer(EXAMPLE, lambda: NOW)
    disposition = "attachment; filename=\"a b.txt\"; filename*=UTF-8''%E2%82%AC.txt"
    url = signer.sign_download("1/content-x", "text/plain", disposition, 3600)
    query = query_of(url)
    assert query["response-content-type"] == "text/plain"
    assert query["response-content-disposition"] == disposition
    assert query["X-Amz-Signature"] == signature_of("GET", url, {}, EXAMPLE)
    assert query["X-Amz-Signature"] != signature_of("GET", url.replace("text%2Fplain", "text%2Fhtml"), {}, EXAMPLE)


def test_downloads_signed_within_five_minutes_have_one_address() -> None:
    now = [NOW]
    signer = S3Signer(EXAMPLE, lambda: now[0])
    urls = list[str]()
    for now[0] in (NOW, NOW + 299.9, NOW + 300, NOW + 301):
        urls.append(signer.sign_download("1/a", "text/plain", "inline", 3600))
        begin = NOW if now[0] < NOW + 300 else NOW + 300
        assert begin + int(query_of(urls[-1])["X-Amz-Expires"]) >= now[0] + 3600
    assert urls[0] == urls[1] != urls[2] == urls[3]


@pytest.mark.parametrize(
    ("options", "address"),
    [
        (EXAMPLE, "https://examplebucket.s3.amazonaws.com/1/a-x"),
        (replace(EXAMPLE, path_style=True), "https://s3.amazonaws.com/examplebucket/1/a-x"),
        (
            replace(EXAMPLE, endpoint="http://minio:9000", public_endpoint="https://f.example/s3/", path_style=True),
            "https://f.example/s3/examplebucket/1/a-x",
        ),
    ],
)
def test_clients_get_addresses_of_the_public_endpoint(options: S3Options, address: str) -> None:
    for url in (
        S3Signer(options).sign_upload("1/a-x", 1, None, 60)[0],
        S3Signer(options).sign_download("1/a-x", "text/plain", "inline", 60),
    ):
        assert url.partition("?")[0] == address
    assert options.address("1/a-x").startswith(options.endpoint) or not options.path_style


async def test_clients_send_and_read_blobs_themselves(s3: S3Blobs) -> None:
    content = some_bytes(100_000)
    sha256 = hashlib.sha256(content).hexdigest()
    upload = s3.upload_request("1/direct-x", len(content), sha256, 3600)
    url = s3.download_url("1/direct-x", "text/plain", 'attachment; filename="x.txt"', 3600)
    assert upload is not None and url is not None
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        sent = await client.request(upload.method, upload.url, headers=dict(upload.headers), content=content)
        assert sent.status_code == 200
        answer = await client.get(url, headers={"range": "bytes=10-19"})
        assert (answer.status_code, answer.content) == (206, content[10:20])
        assert answer.headers["content-type"] == "text/plain"
        assert answer.headers["content-disposition"] == 'attachment; filename="x.txt"'
    found = await s3.find("1/direct-x")
    assert found is not None and found.size == len(content) and found.sha256 in (sha256, None)
    assert await read_all(s3, "1/direct-x") == content


async def test_names_of_many_pages_are_listed_once(s3: S3Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NAMES_PER_PAGE", 3)
    names = [f"{number}/a-x" for number in range(10, 20)]
    for name in names:
        await s3.write(name, in_parts(b"x"))
    pages = [page async for page in s3.list_names()]
    assert [name for page in pages for name in page] == names and len(pages) == 4


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


@asynccontextmanager
async def fake_s3(handler: Handler, timeout_seconds: float = 60.0) -> AsyncIterator[S3Blobs]:
    """Provide a store whose bucket is a server with a handler for each connection."""
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    s3 = S3Blobs(
        replace(EXAMPLE, endpoint=f"http://127.0.0.1:{port}", path_style=True), timeout_seconds=timeout_seconds
    )
    try:
        yield s3
    finally:
        await s3.close()
        server.close()


def answers(*heads: str) -> tuple[Handler, list[str]]:
    """Return a handler that gives one answer to each connection, and the requests that it got."""
    left, requests = list(heads), list[str]()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append((await reader.readuntil(b"\r\n")).decode())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {left.pop(0) if len(left) > 1 else left[0]}".encode())
        await writer.drain()
        writer.close()

    return handle, requests


async def calls(s3: S3Blobs) -> list[Any]:
    """Return the outcome of each call."""
    return await asyncio.gather(
        s3.open(),
        s3.write("1/a", in_parts(b"x")),
        read_all(s3, "1/a"),
        s3.find("1/a"),
        s3.delete(["1/a"]),
        cast(Any, all_names(s3)),
        return_exceptions=True,
    )


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)


@pytest.mark.usefixtures("no_pauses")
async def test_an_absent_service_is_unreachable() -> None:
    s3 = S3Blobs(replace(EXAMPLE, endpoint="http://127.0.0.1:1", path_style=True))
    assert {type(outcome) for outcome in await calls(s3)} == {Unreachable}
    await s3.close()


@pytest.mark.usefixtures("no_pauses")
async def test_a_service_that_does_not_answer_is_unreachable() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with fake_s3(silent, 0.1) as s3, asyncio.timeout(60):
        assert {type(outcome) for outcome in await calls(s3)} == {Unreachable}


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("status", ["403 Forbidden", "503 Slow Down", "301 Moved", "200 OK\r\nContent-Length: 5"])
async def test_other_answers_are_unreachable(status: str) -> None:
    handler, _ = answers(f"{status}\r\nConnection: close\r\n\r\nxx")
    async with fake_s3(handler) as s3:
        assert Unreachable in {type(outcome) for outcome in await calls(s3)}
        with pytest.raises(Unreachable):
            await read_all(s3, "1/a")


@pytest.mark.usefixtures("no_pauses")
async def test_a_listing_that_cannot_be_parsed_is_unreachable() -> None:
    handler, _ = answers("200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nxx")
    async with fake_s3(handler) as s3:
        with pytest.raises(Unreachable):
            await all_names(s3)


@pytest.mark.usefixtures("no_pauses")
async def test_a_request_is_repeated_after_an_error_of_the_service() -> None:
    error, found = (
        "503 Slow Down\r\nConnection: close\r\n\r\n",
        "200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\n",
    )
    handler, requests = answers(error, error, found)
    async with fake_s3(handler) as s3:
        info = await s3.find("1/a")
    assert info is not None and info.size == 7
    assert requests == ["HEAD /examplebucket/1/a HTTP/1.1\r\n"] * 3


@pytest.mark.usefixtures("no_pauses")
async def test_a_bucket_that_does_not_exist_is_found_at_the_start(s3_options: S3Options) -> None:
    s3 = S3Blobs(s3_options)
    await s3.open()
    await s3.close()
    missing = S3Blobs(replace(s3_options, bucket="other"))
    with pytest.raises(Unreachable):
        await missing.open()
    await missing.close()
