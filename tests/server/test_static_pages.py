"""Web pages: who gets them, their files, and their content security policy."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from server.graphql_endpoint import GraphQLEndpoint
from server.http.static_pages import STATIC, StaticPage, demo_routes
from server.settings import load_settings
from server.settings.public_url import file_origins

ASSETS = "/graphql/assets"
BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
WEB = Path(__file__).parents[2] / "web"


async def refuse(*_: Any) -> Any:
    raise AssertionError("the page asks nobody")


def app_with(built: StaticPage | None) -> httpx.AsyncClient:
    nothing: Any = None
    engine: Any = SimpleNamespace(check_caller=lambda _caller: None)
    page = built.page if built is not None else None
    endpoint = GraphQLEndpoint(engine, refuse, refuse, nothing, nothing, max_body_bytes=1024, page=page)
    routes = [Route("/graphql", endpoint), *(built.routes() if built is not None else ())]
    return httpx.AsyncClient(transport=httpx.ASGITransport(Starlette(routes=routes)), base_url="http://confab")


@pytest.fixture
async def built(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A built page with simple files."""
    (tmp_path / "page").mkdir()
    (tmp_path / "secret.js").write_text("outside")
    for name, content in {"index.html": "<p>the page</p>", "app-1.js": "app", "style-1.css": "", ".log": "x"}.items():
        (tmp_path / "page" / name).write_text(content)
    async with app_with(StaticPage(tmp_path / "page", ASSETS)) as client:
        yield client


async def test_browser_gets_the_page_with_and_without_a_query(built: httpx.AsyncClient) -> None:
    for address in ("/graphql", "/graphql?query=%7Bme%7Bid%7D%7D"):
        response = await built.get(address, headers=BROWSER)
        assert (response.status_code, response.text) == (200, "<p>the page</p>")
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        assert (response.headers["cache-control"], response.headers["vary"]) == ("no-cache", "accept")


async def test_clients_that_accept_json_do_not_get_the_page(built: httpx.AsyncClient) -> None:
    for accept in ("*/*", "application/json", "application/json, text/html;q=0.9"):
        response = await built.get("/graphql", headers={"accept": accept})
        assert response.headers["content-type"].startswith("application/json")


async def test_disabled_page_and_its_files_are_not_served() -> None:
    async with app_with(None) as client:
        response = await client.get("/graphql", headers=BROWSER)
        assert (response.status_code, response.json()["errors"][0]["extensions"]["code"]) == (400, "INVALID_INPUT")
        assert (await client.get(f"{ASSETS}/app-1.js")).status_code == 404


async def test_files_may_be_cached_forever(built: httpx.AsyncClient) -> None:
    response = await built.get(f"{ASSETS}/app-1.js")
    assert (response.status_code, response.text) == (200, "app")
    assert response.headers["content-type"].startswith("text/javascript")
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_texts_are_compressed_for_browsers_that_accept_it(built: httpx.AsyncClient) -> None:
    for accepted, encoding in (("gzip, br", "gzip"), ("identity", None)):
        response = await built.get(f"{ASSETS}/app-1.js", headers={"accept-encoding": accepted})
        assert (response.status_code, response.text) == (200, "app")
        assert response.headers.get("content-encoding") == encoding
        assert response.headers["vary"] == "accept-encoding"


@pytest.mark.parametrize("name", ["index.html", "..%2fsecret.js", "%2e%2e/secret.js", ".log", "other.js", "x" * 300])
async def test_only_files_of_the_page_are_served(built: httpx.AsyncClient, name: str) -> None:
    assert (await built.get(f"{ASSETS}/{name}")).status_code == 404


async def test_missing_page_explains_how_to_build_it(tmp_path: Path) -> None:
    async with app_with(StaticPage(tmp_path / "nothing", ASSETS)) as client:
        response = await client.get("/graphql", headers=BROWSER)
    assert response.status_code == 503
    assert "make web" in response.text


async def test_page_may_not_load_anything_from_other_hosts(built: httpx.AsyncClient) -> None:
    response = await built.get("/graphql", headers=BROWSER)
    policy = response.headers["content-security-policy"]
    assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} <= {
        *policy.split("; ")
    }
    assert not re.search(r"unsafe-eval|https?:|\*|script-src[^;]*unsafe-inline", policy)


async def test_only_the_demo_may_frame_itself() -> None:
    transport = httpx.ASGITransport(Starlette(routes=demo_routes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://confab") as client:
        policy = (await client.get("/demo")).headers["content-security-policy"].split("; ")
    assert {"frame-src 'self'", "frame-ancestors 'self'", "script-src 'self'"} <= set(policy)


async def test_the_service_worker_of_the_demo_is_never_older_than_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.http.static_pages.STATIC", tmp_path)
    transport = httpx.ASGITransport(Starlette(routes=demo_routes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://confab") as client:
        assert (await client.get("/demo/sw.js")).status_code == 404
        (tmp_path / "demo").mkdir()
        (tmp_path / "demo" / "sw.js").write_text("self")
        worker = await client.get("/demo/sw.js")
        assert (await client.get("/demo/assets/sw.js")).status_code == 404
    assert (worker.status_code, worker.text) == (200, "self")
    assert worker.headers["content-type"].startswith("text/javascript")
    assert worker.headers["cache-control"] == "no-cache"
    # A worker has a policy of its own, and inherits none from the page.
    assert worker.headers["content-security-policy"] == "default-src 'none'; img-src 'self' data:"


async def test_demo_may_load_pictures_from_other_hosts_and_nothing_else() -> None:
    transport = httpx.ASGITransport(Starlette(routes=demo_routes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://confab") as client:
        policy = (await client.get("/demo")).headers["content-security-policy"].split("; ")
    assert [rule for rule in policy if "http" in rule] == ["img-src 'self' data: blob: https: http:"]


async def test_pages_may_load_files_from_where_the_deployment_has_them() -> None:
    origins = file_origins(load_settings(public_url="https://chat.example.org/confab"))
    assert origins == ("https://chat.example.org",)
    bucket = {"blob_store": "s3", "s3_bucket": "files", "s3_access_key": "key", "s3_secret_key": "secret-key"}
    with_bucket = file_origins(load_settings(s3_region="eu-central-1", **bucket))
    assert with_bucket == ("http://127.0.0.1:8000", "https://s3.eu-central-1.amazonaws.com")
    hosted = file_origins(
        load_settings(s3_public_endpoint="https://s3.example.org:9000", s3_path_style=False, **bucket)
    )
    assert hosted == ("http://127.0.0.1:8000", "https://files.s3.example.org:9000")
    transport = httpx.ASGITransport(Starlette(routes=demo_routes(origins)))
    async with httpx.AsyncClient(transport=transport, base_url="http://confab") as client:
        policy = (await client.get("/demo")).headers["content-security-policy"].split("; ")
    assert "media-src 'self' https://chat.example.org blob:" in policy
    assert "connect-src 'self' https://chat.example.org" in policy


@pytest.mark.parametrize("page", ["playground", "demo"])
def test_built_pages_comply_with_the_content_security_policy(page: str) -> None:
    index = STATIC / page / "index.html"
    if not index.is_file():
        pytest.skip("make web has built nothing here")
    html = index.read_text(encoding="utf-8")
    # The policy forbids inline scripts and event handlers.
    assert re.findall(r"<script(?![^>]* src=)|\son\w+=", html) == []
    urls = re.findall(r'(?:src|href)="([^"]+)"', html)
    path = "/graphql/assets/" if page == "playground" else "/demo/assets/"
    for url in urls:
        assert url.startswith(path)
        assert (STATIC / page / url.removeprefix(path)).is_file()


def test_npm_uses_the_registry_of_the_machine() -> None:
    locked = json.loads((WEB / "package-lock.json").read_bytes())["packages"]
    assert not any("resolved" in package for package in locked.values())


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_make_web_retries_a_failed_build(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    for name in ("web.mk", "package-lock.json"):
        shutil.copy(WEB / name, tmp_path / "web")
    (tmp_path / "Makefile").write_text("run: | web\n\t@true\ninclude web/web.mk\n")

    def make(target: str, npm: str) -> str:
        for name, script in {"npm": npm, "node": "exit 0"}.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "MAKEFLAGS": ""}
        return subprocess.run(
            ["make", target], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout

    (tmp_path / "web" / "node_modules").mkdir()
    assert "did not work" in make("run", "exit 1")
    assert "Pages" not in make("run", "exit 1")
    assert "did not work" in make("web", "exit 1")
    assert "building" in make("web", "exit 0")
    assert "Pages" not in make("web", "exit 1")
