"""Ranges, ETags and conditional requests."""

from __future__ import annotations

import pytest

from tests.api.serving.conftest import FileServer

DATA = bytes(range(100))
WHOLE = (200, 0, 100)
ETAG = "the ETag"
"""Stands for the ETag of the file."""


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, WHOLE),
        ({"range": "bytes=0-0"}, (206, 0, 1)),
        ({"range": "bytes=0-"}, (206, 0, 100)),
        ({"range": "bytes=10-19"}, (206, 10, 20)),
        ({"range": "BYTES= 10-19"}, (206, 10, 20)),
        ({"range": "bytes=90-"}, (206, 90, 100)),
        ({"range": "bytes=90-1000"}, (206, 90, 100)),
        ({"range": "bytes=99-99"}, (206, 99, 100)),
        ({"range": "bytes=-1"}, (206, 99, 100)),
        ({"range": "bytes=-30"}, (206, 70, 100)),
        ({"range": "bytes=-1000"}, (206, 0, 100)),
        ({"range": "bytes=100-"}, None),
        ({"range": "bytes=100-200"}, None),
        ({"range": "bytes=-0"}, None),
        ({"range": "bytes=999999999999999999-"}, None),
        # Ranges that servers ignore.
        ({"range": "bytes=0-1,5-6"}, WHOLE),
        ({"range": "bytes=20-10"}, WHOLE),
        ({"range": "bytes=-"}, WHOLE),
        ({"range": "bytes="}, WHOLE),
        ({"range": "bytes=a-b"}, WHOLE),
        ({"range": "bytes=1"}, WHOLE),
        ({"range": "bytes=+1-2"}, WHOLE),
        ({"range": "bytes=1 - 2"}, WHOLE),
        ({"range": f"bytes=0-{'9' * 5000}"}, WHOLE),
        ({"range": "items=0-1"}, WHOLE),
        ({"range": ""}, WHOLE),
        ({"range": "bytes=0-9", "if-range": ETAG}, (206, 0, 10)),
        ({"range": "bytes=0-9", "if-range": '"other"'}, WHOLE),
        ({"range": "bytes=0-9", "if-range": f"W/{ETAG}"}, WHOLE),
        ({"range": "bytes=0-9", "if-range": "Wed, 21 Oct 2026 07:28:00 GMT"}, WHOLE),
        ({"range": "bytes=500-", "if-range": '"other"'}, WHOLE),
        ({"if-none-match": ETAG}, (304, 0, 0)),
        ({"if-none-match": f"W/{ETAG}"}, (304, 0, 0)),
        ({"if-none-match": f'"other", {ETAG}'}, (304, 0, 0)),
        ({"if-none-match": "*"}, (304, 0, 0)),
        ({"if-none-match": '"other"'}, WHOLE),
        ({"if-none-match": ETAG, "range": "bytes=0-9"}, (304, 0, 0)),
        ({"if-none-match": '"other"', "range": "bytes=0-9"}, (206, 0, 10)),
    ],
)
async def test_requests_for_parts(
    server: FileServer, headers: dict[str, str], expected: tuple[int, int, int] | None
) -> None:
    file = await server.add(DATA, "video/mp4", "a.mp4")
    etag = (await server.http.head(server.path(file))).headers["etag"]
    given = {name: value.replace(ETAG, etag) for name, value in headers.items()}
    answer = await server.http.get(server.path(file), headers=given)
    if expected is None:
        assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */100")
        assert DATA not in answer.content
        return
    status, start, end = expected
    assert (answer.status_code, answer.content) == (status, DATA[start:end])
    assert answer.headers["etag"] == etag
    assert answer.headers.get("content-range") == (f"bytes {start}-{end - 1}/100" if status == 206 else None)
    if status != 304:
        assert answer.headers["content-length"] == str(end - start)


async def test_parts_of_a_large_file_are_its_bytes(server: FileServer) -> None:
    data = bytes(number * 7 % 251 for number in range(700_000))
    file = await server.add(data, "video/mp4", "a.mp4")
    assert (await server.get(file)).content == data
    for start, end in ((0, 261_121), (261_119, 261_121), (300_000, 699_999), (522_240, 522_241)):
        answer = await server.get(file, range=f"bytes={start}-{end - 1}")
        assert (answer.status_code, answer.content) == (206, data[start:end])


async def test_each_file_has_its_own_etag(server: FileServer) -> None:
    first, second = await server.get(await server.add(DATA)), await server.get(await server.add(DATA))
    assert first.headers["etag"] != second.headers["etag"]
    assert first.headers["etag"].startswith('"')
