"""Metrics of files and link previews."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from server.embedded import ports
from server.files.metrics import FileMetrics
from server.observability.metrics import Metrics, MetricSources
from tests.previews.site import png
from tests.protocol.serving import until
from tests.server.served_app import App, ServeApp
from tests.server.test_metrics import measured, scrape
from tests.server.uploads.test_uploads_over_http import begin, call, head

COMPLETE = "mutation ($id: ID!) { completeUpload(uploadId: $id) { state url thumbnail: thumbnailUrl(width: 100) } }"
DOCUMENT = Path(__file__).parents[3] / "docs" / "operations" / "monitoring.md"


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[FileMetrics]:
    """Metrics of files of each served application."""
    opened: list[FileMetrics] = []

    class Watched(Metrics):
        def __init__(self, sources: MetricSources) -> None:
            assert isinstance(sources.files, FileMetrics)
            opened.append(sources.files)
            super().__init__(sources)

    monkeypatch.setattr("server.observability.metrics.Metrics", Watched)
    return opened


async def upload(app: App, content: bytes) -> tuple[str, str, str]:
    """Send and complete a file. Return its state, its address and that of a thumbnail, or ""."""
    id, target = await begin(app, len(content))
    assert (await app.http.put(target, content=content)).status_code == 204
    file = await call(app, COMPLETE, id=id)
    return file["state"], _target(file["url"]), _target(file["thumbnail"])


def _target(url: str | None) -> str:
    parts = urlsplit(url or "")
    return f"{parts.path}?{parts.query}"


async def test_traffic_and_inspections_are_counted(serve_app: ServeApp) -> None:
    image = png(200, 100)
    async with measured(serve_app) as (app, grown):
        state, target, thumbnail = await upload(app, image)
        assert state == "READY"
        assert (await upload(app, image[:60]))[0] == "REJECTED"
        whole = await app.http.get(target)
        small = await app.http.get(thumbnail)
        assert (await app.http.get(thumbnail)).content == small.content
        assert (await app.http.get(target, headers={"range": "bytes=0-9"})).status_code == 206
        assert (await app.http.get(target[:-3])).status_code == 403
        assert await grown("confab_uploads_total", status="204") == 2
        assert await grown("confab_downloads_total", status="200") == 3
        assert await grown("confab_downloads_total", status="206") == 1
        assert await grown("confab_downloads_total", status="403") == 1
        assert await grown("confab_file_bytes_total", direction="received") == len(image) + 60
        sent = len(whole.content) + 2 * len(small.content) + 10
        assert await grown("confab_file_bytes_total", direction="sent") == sent
        assert await grown("confab_inspections_total", kind="inspect", outcome="ok") == 1
        assert await grown("confab_inspections_total", kind="inspect", outcome="rejected") == 1
        assert await grown("confab_inspections_total", kind="scale", outcome="ok") == 1
        assert await grown("confab_thumbnails_total") == 1
        assert await grown("confab_downloads_running") == 0


async def test_refused_and_interrupted_requests_are_counted(serve_app: ServeApp, sources: list[FileMetrics]) -> None:
    async with measured(serve_app, max_downloads=1) as (app, grown):
        _, target, _ = await upload(app, b"text")
        (source,) = sources
        downloads, uploads = source.endpoints.downloads, source.endpoints.uploads
        other = downloads.begin(lambda: None)
        assert other is not None
        assert (await app.http.get(target)).status_code == 503
        other.waiting_since = -1e9
        assert (await app.http.get(target)).text == "text"
        assert await grown("confab_downloads_limited_total", outcome="refused") == 1
        assert await grown("confab_downloads_limited_total", outcome="dropped") == 1
        assert await grown("confab_downloads_total", status="503") == 1
        _, target = await begin(app, 1_000)
        _, writer = await asyncio.open_connection("127.0.0.1", app.served.port)
        writer.write(head(target, "content-length: 1000").encode() + b"x" * 300)
        await until(lambda: uploads.bytes_received == 304)
        writer.close()
        await until(lambda: uploads.interrupted)
        assert (await app.http.put(target, content=b"x" * 1_001)).status_code == 413
        assert await grown("confab_uploads_interrupted_total") == 1
        assert await grown("confab_uploads_total", status="413") == 1


async def test_background_work_is_counted(serve_app: ServeApp, sources: list[FileMetrics]) -> None:
    async with measured(serve_app, link_previews=True) as (app, grown):
        for user in ("alice", "bob", "carol"):
            await app.data("{ me { id } }", user)
        create = 'mutation { createGroup(input: {name: "Tea", memberIds: ["bob", "carol"]}) { id } }'
        group = (await app.data(create, "alice"))["createGroup"]["id"]
        send = f'sendMessage(input: {{conversationId: "{group}", content: "http://127.0.0.1/"}}) {{ replayed }}'
        await app.data(f"mutation {{ {send} }}", "alice")
        await until(lambda: sources[0].fetched_links.get("refused"))
        await until(lambda: not sources[0].app.previews.waiting)
        assert await grown("confab_link_previews_total", outcome="refused") == 1
        assert await grown("confab_link_previews_waiting") == 0
        id, _ = await begin(app, 1_000)
        await call(app, "mutation ($id: ID!) { cancelUpload(uploadId: $id) }", id=id)
        await sources[0].sweeper.sweep()
        assert await grown("confab_files_swept_total", outcome="removed") == 1
        assert await grown("confab_files_swept_total", outcome="tidied") == 0


async def test_all_metrics_are_described_for_operators(serve_app: ServeApp) -> None:
    port = ports.pick_free()
    async with serve_app(metrics_port=port):
        names = {name for name, _ in await scrape(port) if name.startswith("confab_")}
    named = set(re.findall(r"`(confab_[a-z0-9_]+)", DOCUMENT.read_text()))
    assert "confab_thumbnails_total" in names
    assert {re.sub("_(bucket|count|sum|created)$", "", name) for name in names} <= named
