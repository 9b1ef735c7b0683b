"""Files in a store that clients read themselves: Confab answers with the address there."""

from __future__ import annotations

import pytest

from tests.api.serving.conftest import FileServer
from tests.api.serving.test_thumbnails import add_image

DIRECT = "https://store.example/bucket/blob?signature"


@pytest.fixture
def issued(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str, int]]:
    """Return the addresses that the store has issued."""
    found: list[tuple[str, str, str, int]] = []

    def download_url(name: str, content_type: str, disposition: str, seconds: int) -> str:
        found.append((name, content_type, disposition, seconds))
        return DIRECT

    monkeypatch.setattr(server.app.store.blobs, "download_url", download_url)
    return found


async def test_a_read_is_redirected_as_long_as_the_address_is_valid(
    server: FileServer, issued: list[tuple[str, str, str, int]]
) -> None:
    file = await server.add(b"<html>", "text/html", "a.html")
    answer = await server.get(file)
    assert (answer.status_code, answer.headers["location"], answer.content) == (302, DIRECT, b"")
    ((name, content_type, disposition, seconds),) = issued
    assert (name, content_type, disposition) == (
        f"{file.id}/test",
        "application/octet-stream",
        'attachment; filename="a.html"',
    )
    assert 3590 <= seconds <= 3900
    assert answer.headers["cache-control"] == f"private, max-age={seconds}, immutable"


async def test_only_reads_that_confab_would_answer_are_redirected(
    server: FileServer, issued: list[tuple[str, str, str, int]]
) -> None:
    file = await server.add(b"text")
    assert (await server.http.get(server.path(file)[:-1])).status_code == 403
    head = await server.http.head(server.path(file))
    assert (head.status_code, head.headers["content-length"]) == (200, "4")
    assert (await server.get(file, if_none_match=head.headers["etag"])).status_code == 304
    assert await server.app.store.files.cancel(file.id, file.owner, server.app.store.clock.now_ms())
    assert (await server.get(file)).status_code == 404
    assert issued == []


async def test_thumbnails_are_made_and_then_redirected(
    server: FileServer, issued: list[tuple[str, str, str, int]]
) -> None:
    file = await add_image(server, 700, 350)
    assert (await server.get(file, 160)).status_code == 302
    row = await server.find(file.id)
    assert row is not None
    ((name, content_type, disposition, _),) = issued
    assert (name, disposition) == (row.thumbnails[160], "inline")
    assert content_type.startswith("image/")
