"""Web pages that `make web` builds: the playground (GraphiQL) and the demo."""

from __future__ import annotations

import asyncio
import gzip
import mimetypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

PLAYGROUND_ASSETS = "/graphql/assets"
DEMO_PATH = "/demo"
DEMO_ASSETS = "/demo/assets"
DEMO_WORKER = "/demo/sw.js"
"""The demo's service worker. Its scope is `/demo/`."""

STATIC = Path(__file__).parents[1] / "static"
"""Output folder of the build. Each page has a folder with index.html, and files whose names contain a content hash."""

_WORKER = "sw.js"
_COMPRESSIBLE = frozenset({".css", ".js", ".json", ".svg", ".webmanifest"})
_MOST_COMPRESSED = 64
"""Files whose compressed content is kept in memory. A build has fewer that browsers ask for."""

_VARY = {"vary": "accept-encoding"}
_CACHE_FOREVER = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
# Its address never changes, so a cached one would stay for as long as it may be cached. It loads nothing but icons.
_WORKER_HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": "default-src 'none'; img-src 'self' data:",
    "x-content-type-options": "nosniff",
}
_NOT_BUILT = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Confab: not built yet</title>
    <style>
      :root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
      main { max-width: 38rem; margin: 15vh auto; padding: 0 1.5rem; }
    </style>
  </head>
  <body>
    <main>
      <h1>This page has not been built yet</h1>
      <p>Confab itself is running: the API answers <code>POST /graphql</code>, and WebSockets there.</p>
      <p>Pages are built with Node.js 20 or newer and npm.
      Install them, run <code>make web</code> and load this page again.</p>
    </main>
  </body>
</html>
"""


class StaticPage:
    """A page and its files, read from a folder that the build fills. It may be rebuilt while the server runs.

    The content security policy forbids loading anything from other hosts, except for files from `file_origins`: where
    the deployment's files are. With `pictures`, images of all hosts are allowed. Foreign pages may not frame the page;
    with `framed` it may frame itself.
    """

    def __init__(
        self,
        folder: Path,
        assets_path: str,
        *,
        framed: bool = False,
        pictures: bool = False,
        file_origins: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._assets_path = assets_path
        frames, legacy_frames = ("'self'", "SAMEORIGIN") if framed else ("'none'", "DENY")
        self._headers = _headers(frames, legacy_frames, pictures, " ".join(("'self'", *file_origins)))

    def page(self, _request: Request) -> Response:
        """Return the page, or a page that explains how to build it (503)."""
        try:
            html = (self._folder / "index.html").read_text(encoding="utf-8")
        except OSError:
            return HTMLResponse(_NOT_BUILT, 503, headers=self._headers)
        return HTMLResponse(html, headers=self._headers)

    def routes(self) -> list[Route]:
        """Return the routes of the page's files. Browsers may cache them forever."""
        return [Route(f"{self._assets_path}/{{name}}", self._file)]

    def worker(self, _request: Request) -> Response:
        """Return the page's service worker. Browsers ask for it each time they look for a newer one."""
        path = self._folder / _WORKER
        if not _is_file(path):
            raise HTTPException(404)
        return FileResponse(path, media_type="text/javascript", headers=_WORKER_HEADERS)

    async def _file(self, request: Request) -> Response:
        path = self._folder / request.path_params["name"]
        # `{name}` matches no slash, so the path cannot leave the folder.
        if path.name.startswith(".") or path.suffix == ".html" or path.name == _WORKER or not _is_file(path):
            raise HTTPException(404)
        kind, _ = mimetypes.guess_type(path.name)
        if path.suffix not in _COMPRESSIBLE or "gzip" not in request.headers.get("accept-encoding", ""):
            return FileResponse(path, headers=_CACHE_FOREVER | _VARY)
        body = await asyncio.to_thread(_compressed, path, path.stat().st_mtime_ns)
        return Response(body, media_type=kind, headers=_CACHE_FOREVER | _VARY | {"content-encoding": "gzip"})


@lru_cache(maxsize=_MOST_COMPRESSED)
def _compressed(path: Path, _changed_ns: int) -> bytes:
    """Return the content of a file, compressed once for all requests."""
    return gzip.compress(path.read_bytes())


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # The name is too long for the file system.
        return False


def playground(file_origins: Sequence[str] = ()) -> StaticPage:
    """Return GraphiQL. Browsers get it at the address of the API."""
    return StaticPage(STATIC / "playground", PLAYGROUND_ASSETS, file_origins=file_origins)


def demo_routes(file_origins: Sequence[str] = ()) -> list[Route]:
    """Return the routes of the demo, a chat in the browser, which sends and shows files of `file_origins`."""
    built = StaticPage(STATIC / "demo", DEMO_ASSETS, framed=True, pictures=True, file_origins=file_origins)

    async def page(request: Request) -> Response:
        return built.page(request)

    async def worker(request: Request) -> Response:
        return built.worker(request)

    return [Route(DEMO_PATH, page), Route(DEMO_WORKER, worker), *built.routes()]


def _headers(frames: str, legacy_frames: str, pictures: bool, files: str) -> dict[str, str]:
    policy = (
        "default-src 'none'",
        "script-src 'self'",
        # Editors and lists set styles on elements.
        "style-src 'self' 'unsafe-inline'",
        "font-src 'self' data:",
        # Pictures of users and groups are on other hosts. They get no referrer. A file is shown while it is sent.
        f"img-src {files} data: blob:{' https: http:' if pictures else ''}",
        f"media-src {files} blob:",
        f"connect-src {files}",
        "worker-src 'self' blob:",
        "manifest-src 'self'",
        # The demo shows two devices next to each other: it frames itself twice.
        f"frame-src {frames}",
        f"frame-ancestors {frames}",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return {
        "cache-control": "no-cache",
        "vary": "accept",
        "content-security-policy": "; ".join(policy),
        "x-content-type-options": "nosniff",
        "x-frame-options": legacy_frames,
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
    }
