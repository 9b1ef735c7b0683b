"""The webhooks that a process knows are never older than those of its last complete read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.webhooks.webhook_registry import WebhookRegistry
from tests.api.client import Api
from tests.webhooks.calls import admin, create_webhook
from tests.webhooks.endpoint import Endpoint


async def test_a_slow_read_does_not_replace_a_later_one(
    api: Api, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = api.services.app.store.webhooks
    registry = WebhookRegistry(store)
    old = await create_webhook(api, admin(), endpoint.url)
    list_outgoing, is_read, may_end = store.list_outgoing, asyncio.Event(), asyncio.Event()

    async def list_slowly() -> Any:
        found = await list_outgoing()
        is_read.set()
        await may_end.wait()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(store, "list_outgoing", list_slowly)
        slow = asyncio.create_task(registry.refresh())
        await is_read.wait()
    new = await create_webhook(api, admin(), endpoint.url)
    later = asyncio.create_task(registry.refresh())
    await asyncio.wait([later], timeout=0.5)
    may_end.set()
    await asyncio.gather(slow, later)
    assert registry.webhooks.keys() == {old["id"], new["id"]}
