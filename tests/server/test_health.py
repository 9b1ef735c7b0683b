"""Liveness, readiness, and the redirect at the root."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import httpx
import pytest
from starlette.applications import Starlette

from server.observability.health import health_routes
from tests.protocol.serving import PATIENCE


def client(check: Callable[[], Awaitable[Mapping[str, str | None]]]) -> httpx.AsyncClient:
    app = Starlette(routes=[*health_routes(check)])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://confab")


async def all_well() -> dict[str, str | None]:
    return {"mongo": None, "redis": None}


async def redis_gone() -> dict[str, str | None]:
    return {"mongo": None, "redis": "connection refused"}


async def broken() -> dict[str, str | None]:
    raise RuntimeError("password=hunter2")


async def stuck() -> dict[str, str | None]:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def test_ready_while_all_dependencies_are_reachable() -> None:
    async with client(all_well) as http:
        response = await http.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {"status": "ready", "checks": {"mongo": "ok", "redis": "ok"}}


async def test_not_ready_with_the_reason_while_a_dependency_is_away() -> None:
    async with client(redis_gone) as http:
        response = await http.get("/readyz")
    assert response.status_code == 503
    assert response.json() == {"status": "unready", "checks": {"mongo": "ok", "redis": "connection refused"}}


@pytest.mark.parametrize("check", [broken, stuck])
async def test_failing_or_hanging_check_is_not_ready_and_leaks_nothing(
    check: Callable[[], Awaitable[dict[str, str | None]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.observability.health.CHECK_TIMEOUT_SECONDS", 0.05)
    async with client(check) as http:
        response = await asyncio.wait_for(http.get("/readyz"), PATIENCE)
    assert response.status_code == 503
    assert "hunter2" not in response.text


@pytest.mark.parametrize("check", [all_well, redis_gone, broken, stuck])
async def test_liveness_does_not_depend_on_databases(check: Callable[[], Awaitable[dict[str, str | None]]]) -> None:
    async with client(check) as http:
        response = await asyncio.wait_for(http.get("/healthz"), PATIENCE)
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_health_responses_are_not_cached() -> None:
    async with client(all_well) as http:
        for path in ("/healthz", "/readyz"):
            assert (await http.get(path)).headers["cache-control"] == "no-store"


async def test_root_redirects_to_the_api() -> None:
    async with client(all_well) as http:
        response = await http.get("/")
    assert (response.status_code, response.headers["location"]) == (307, "/graphql")
