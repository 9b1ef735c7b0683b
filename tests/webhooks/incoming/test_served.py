"""Incoming webhooks of a whole application, as `confab serve` runs it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from server.settings import Settings
from tests.server.served_app import App, serving_app
from tests.server.tokens import bearer
from tests.webhooks.incoming.hooks import CREATE_HOOK, ORIGIN, Hook


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[App]:
    async with serving_app(settings) as app:
        yield app


async def create_hook(app: App) -> Hook:
    """Create a workspace with a channel and a webhook."""
    headers = {"authorization": bearer(sub="ann", exp=time.time() + 60)}

    async def run(query: str, **variables: object) -> dict[str, str]:
        answer = await app.http.post("/graphql", json={"query": query, "variables": variables}, headers=headers)
        (found,) = answer.json()["data"].values()
        assert isinstance(found, dict)
        return found

    workspace = await run('mutation { createWorkspace(input: {name: "Hikers"}) { id } }')
    create = 'mutation ($id: ID!) { createChannel(input: {workspaceId: $id, name: "builds"}) { id } }'
    channel = await run(create, id=workspace["id"])
    webhook = await run(CREATE_HOOK, channel=channel["id"], name="ci")
    return Hook(webhook["id"], webhook["url"])


async def test_the_address_works_as_it_is_shown(app: App) -> None:
    hook = await create_hook(app)
    answer = await app.http.post(hook.url, json={"content": "built"})
    assert (answer.status_code, answer.json()["seq"]) == (200, 1)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store" and answer.headers["x-request-id"]


async def test_pages_of_allowed_origins_get_no_permission(app: App) -> None:
    hook = await create_hook(app)
    preflight = {"origin": ORIGIN, "access-control-request-method": "POST"}
    for answer in (
        await app.http.options(hook.url, headers=preflight),
        await app.http.post(hook.url, json={"content": "x"}, headers={"origin": ORIGIN}),
    ):
        assert not any(name.startswith("access-control") for name in answer.headers)
    assert (await app.http.options("/graphql", headers=preflight)).headers["access-control-allow-origin"] == ORIGIN


async def test_no_log_line_has_the_token(app: App, capfd: pytest.CaptureFixture[str]) -> None:
    hook = await create_hook(app)
    capfd.readouterr()
    await app.http.post(hook.url, json={"content": "built"})
    await app.http.get(hook.url)
    await app.http.post(f"{hook.url}/", content=b"x")
    await app.http.post(f"{hook.url}?a=1", content=b"\xff")
    logged = "".join(capfd.readouterr())
    assert logged.count(f"/webhooks/{hook.id}/…") == 4
    assert hook.token not in logged
