"""The page for people: who gets it, where its files come from, what the browser is allowed to load."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import graphql
import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from server.graphiql import ASSETS_PATH, PAGE_FILES, PLACED_ASSETS, GraphiQL, library_assets
from server.http import GraphQLHTTP

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
WEB = Path(__file__).parents[2] / "web"


async def refuse(*_: Any) -> Any:
    raise AssertionError("the page asks nobody")


def app_with(graphiql: GraphiQL | None) -> httpx.AsyncClient:
    nothing: Any = None
    endpoint = GraphQLHTTP(
        nothing,
        refuse,
        refuse,
        nothing,
        nothing,
        max_body_bytes=1024,
        page=graphiql.page if graphiql is not None else None,
    )
    routes = [Route("/graphql", endpoint), *(graphiql.routes() if graphiql is not None else ())]
    return httpx.AsyncClient(transport=httpx.ASGITransport(Starlette(routes=routes)), base_url="http://confab")


@pytest.fixture
def placed(tmp_path: Path) -> Path:
    """A folder as `make` leaves it, with files of other content."""
    for asset in library_assets():
        (tmp_path / asset.file).write_text(f"/* {asset.file} */")
    return tmp_path


@pytest.fixture
async def self_hosted(placed: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with app_with(GraphiQL(placed)) as client:
        yield client


@pytest.fixture
async def from_cdn(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with app_with(GraphiQL(tmp_path / "nothing")) as client:
        yield client


def urls_in(page: str) -> list[str]:
    return re.findall(r'<(?:script|link rel="stylesheet")[^>]* (?:src|href)="([^"]+)"', page)


async def test_a_browser_gets_the_page_with_and_without_a_query(self_hosted: httpx.AsyncClient) -> None:
    for address in ("/graphql", "/graphql?query=%7Bme%7Bid%7D%7D"):
        response = await self_hosted.get(address, headers=BROWSER)
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        assert 'id="graphiql"' in response.text
        assert 'id="token"' in response.text


async def test_whoever_asks_for_json_does_not_get_the_page(self_hosted: httpx.AsyncClient) -> None:
    for accept in ("*/*", "application/json", "application/json, text/html;q=0.9"):
        response = await self_hosted.get("/graphql", headers={"accept": accept})
        assert response.headers["content-type"].startswith("application/json")


async def test_switched_off_there_is_neither_page_nor_file() -> None:
    async with app_with(None) as client:
        response = await client.get("/graphql", headers=BROWSER)
        assert (response.status_code, response.json()["errors"][0]["extensions"]["code"]) == (400, "INVALID_INPUT")
        assert (await client.get(f"{ASSETS_PATH}/{library_assets()[0].file}")).status_code == 404


async def test_placed_libraries_are_served_from_here_and_kept_for_ever(self_hosted: httpx.AsyncClient) -> None:
    urls = urls_in((await self_hosted.get("/graphql", headers=BROWSER)).text)
    assert len(urls) == len(library_assets()) + 2
    for url in urls:
        assert url.startswith(ASSETS_PATH)
        response = await self_hosted.get(url)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/css" if url.endswith(".css") else "text/javascript")
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert response.headers["x-content-type-options"] == "nosniff"


async def test_without_placed_libraries_they_come_from_the_cdn_with_their_hashes(from_cdn: httpx.AsyncClient) -> None:
    page = (await from_cdn.get("/graphql", headers=BROWSER)).text
    for asset in library_assets():
        address = f"https://unpkg.com/{asset.package}@{asset.version}/{asset.path}"
        assert f'"{address}" integrity="{asset.integrity}" crossorigin="anonymous"' in page
        assert (await from_cdn.get(f"{ASSETS_PATH}/{asset.file}")).status_code == 404


async def test_one_missing_library_sends_browsers_to_the_cdn_for_all(placed: Path) -> None:
    (placed / library_assets()[3].file).unlink()
    async with app_with(GraphiQL(placed)) as client:
        urls = urls_in((await client.get("/graphql", headers=BROWSER)).text)
    assert [url.startswith(ASSETS_PATH) for url in urls] == [False] * len(library_assets()) + [True, True]


async def test_the_page_may_load_and_reach_nothing_else(
    self_hosted: httpx.AsyncClient, from_cdn: httpx.AsyncClient
) -> None:
    for client, scripts in ((self_hosted, "script-src 'self'"), (from_cdn, "script-src 'self' https://unpkg.com/")):
        response = await client.get("/graphql", headers=BROWSER)
        policy = response.headers["content-security-policy"].split("; ")
        assert {"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", scripts} <= set(policy)
        assert "unsafe-eval" not in response.headers["content-security-policy"]
        # The policy forbids scripts and handlers in the page, so it must do without.
        assert re.findall(r"<script(?![^>]* src=)|\son\w+=", response.text) == []


@pytest.mark.parametrize("name", ["assets.json", "graphiql.html", "..%2fapp.py", "%2e%2e/app.py", "react.js"])
async def test_nothing_but_the_pages_files_is_served(self_hosted: httpx.AsyncClient, name: str) -> None:
    assert (await self_hosted.get(f"{ASSETS_PATH}/{name}")).status_code == 404


def test_the_list_of_libraries_agrees_with_what_npm_installs() -> None:
    wanted = json.loads((WEB / "package.json").read_bytes())["dependencies"]
    locked = json.loads((WEB / "package-lock.json").read_bytes())["packages"]
    assert {asset.package: asset.version for asset in library_assets()} == wanted
    for asset in library_assets():
        assert locked[f"node_modules/{asset.package}"]["version"] == asset.version
    assert not any("resolved" in package for package in locked.values())


@pytest.mark.skipif(not GraphiQL().self_hosted, reason="make graphiql-assets has placed nothing here")
def test_what_make_placed_is_what_the_browser_will_accept() -> None:
    for asset in library_assets():
        digest = hashlib.sha384((PLACED_ASSETS / asset.file).read_bytes()).digest()
        assert asset.integrity == "sha384-" + base64.b64encode(digest).decode()


def test_the_example_operations_fit_the_schema() -> None:
    schema_file = PAGE_FILES.parents[2] / "schema" / "schema.graphql"
    schema = graphql.build_schema(schema_file.read_text(encoding="utf-8"))
    script = (PAGE_FILES / "graphiql.js").read_text(encoding="utf-8")
    examples = re.findall(r"^  `(.*?)`,$", script[: script.index("// --- the token")], re.DOTALL | re.MULTILINE)
    assert len(examples) == 3
    for example in examples:
        assert graphql.validate(schema, graphql.parse(example)) == []
