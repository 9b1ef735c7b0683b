"""GraphiQL, the API's page for people with a browser, at the address of the API itself."""

from __future__ import annotations

import hashlib
import html
import json
from dataclasses import dataclass
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

ASSETS_PATH = "/graphql/assets"
CDN = "https://unpkg.com"

_HERE = Path(__file__).parent
PAGE_FILES = _HERE / "pages" / "graphiql"
PLACED_ASSETS = _HERE / "static" / "graphiql"
"""Where make puts the libraries, if npm is at hand."""

_FOR_EVER = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A library file the page loads, in the order of the list. `file` is its name here, version included."""

    file: str
    package: str
    version: str
    path: str
    integrity: str

    @property
    def cdn_url(self) -> str:
        """The same file on the public network."""
        return f"{CDN}/{self.package}@{self.version}/{self.path}"


def library_assets() -> tuple[Asset, ...]:
    """What the page is made of beside its own two files."""
    return tuple(Asset(**entry) for entry in json.loads((PAGE_FILES / "assets.json").read_bytes()))


class GraphiQL:
    """The page and its files. The libraries come from `placed`, or all from the CDN where one is missing there; the
    browser checks them against their hashes either way."""

    def __init__(self, placed: Path = PLACED_ASSETS) -> None:
        assets = library_assets()
        self.self_hosted = all((placed / asset.file).is_file() for asset in assets)
        self._files = {asset.file: placed / asset.file for asset in assets} if self.self_hosted else {}
        own = [_hashed_name(PAGE_FILES / name) for name in ("graphiql.css", "graphiql.js")]
        self._files.update(own)
        tags = [_tag(self._library_url(asset), asset.integrity) for asset in assets]
        tags += [_tag(f"{ASSETS_PATH}/{name}") for name, _ in own]
        page = (PAGE_FILES / "graphiql.html").read_text(encoding="utf-8")
        self._html = page.replace("<!-- assets -->", "\n    ".join(tags))
        self._headers = {
            "cache-control": "no-cache",
            "vary": "accept",
            "content-security-policy": _content_security_policy(None if self.self_hosted else CDN),
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
        }

    def page(self, _request: Request) -> Response:
        """The page itself."""
        return HTMLResponse(self._html, headers=self._headers)

    def routes(self) -> list[Route]:
        """The files of the page. Their names change with their content, so browsers may keep them for ever."""

        async def asset(request: Request) -> Response:
            path = self._files.get(request.path_params["name"])
            if path is None:
                raise HTTPException(404)
            return FileResponse(path, headers=_FOR_EVER, media_type=_MEDIA_TYPES[path.suffix])

        return [Route(f"{ASSETS_PATH}/{{name}}", asset)]

    def _library_url(self, asset: Asset) -> str:
        return f"{ASSETS_PATH}/{asset.file}" if self.self_hosted else asset.cdn_url


def _hashed_name(path: Path) -> tuple[str, Path]:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{path.stem}-{digest[:12]}{path.suffix}", path


def _tag(url: str, integrity: str | None = None) -> str:
    url = html.escape(url)
    check = f' integrity="{integrity}" crossorigin="anonymous"' if integrity else ""
    if url.endswith(".css"):
        return f'<link rel="stylesheet" href="{url}"{check}>'
    return f'<script defer src="{url}"{check}></script>'


def _content_security_policy(cdn: str | None) -> str:
    source = f"'self' {cdn}/" if cdn else "'self'"
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {source}",
            # CodeMirror and the explorer set styles on elements.
            f"style-src {source} 'unsafe-inline'",
            f"font-src {source} data:",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
