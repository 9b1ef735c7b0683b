"""One server keeps the lock of a recovery, even if many events have to be noted again after a loss of Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from store.redis.cache import Call
from subscriptions.delivery.webhooks import webhook_notes
from tests.api.client import Api
from tests.api.conftest import Deployments, OpenApi
from tests.api.reports.calls import make_report, said_by
from tests.api.sample_channels import create_sample_channels
from tests.webhooks.calls import create_webhook
from tests.webhooks.endpoint import Endpoint

REPORTS = 3


@pytest.fixture
async def api_after_loss(
    open_api: OpenApi,
    deployments: Deployments,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Api]:
    """A process that has to note messages and reports about them again, one at a time. Nothing recovers by itself."""
    name = request.node.name
    async with open_api(name, allow_loopback=True, workers=False) as api:
        await api.services.housekeeper.close()
        workspace = await create_sample_channels(api)
        wanted = ("MESSAGE_CREATED", "REPORT_OPENED")
        await create_webhook(api, workspace.owner, endpoint.url, *wanted, workspace=workspace.id)
        for _ in range(REPORTS):
            message = await said_by(api, workspace.moderator, workspace.general)
            await make_report(api, workspace.member, message=message)
        await api.wait_until_idle()
        deployments.flush_redis(name)
        for _ in range(2):
            await api.services.housekeeper.check_redis()
        monkeypatch.setattr(webhook_notes, "_PAGE", 1)
        yield api


class _Pages:
    """Changes the lock after each page of messages or reports, and records how long it was still valid before."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch, *change: str | int) -> None:
        store = api.services.app.store
        self._cache, self._lock, self._change = store.cache, store.keys.loss_recovery_lock, change
        self.lock_ttls_ms: dict[str, list[int]] = {"messages": [], "reports": []}
        list_messages, list_reports = store.changed_messages.list_since, store.reports.list_since

        async def list_and_change_lock(*args: Any) -> AsyncIterator[Any]:
            async for page in list_messages(*args):
                await self._change_lock("messages")
                yield page

        async def list_reports_and_change_lock(*args: Any) -> Any:
            page = await list_reports(*args)
            await self._change_lock("reports")
            return page

        monkeypatch.setattr(store.changed_messages, "list_since", list_and_change_lock)
        monkeypatch.setattr(store.reports, "list_since", list_reports_and_change_lock)

    async def _change_lock(self, kind: str) -> None:
        self.lock_ttls_ms[kind].append(await self._cache.one(Call("PTTL", (self._lock,))))
        command, *args = self._change
        await self._cache.one(Call(str(command), (self._lock,), tuple(args)))


async def test_the_lock_is_extended_with_each_page(api_after_loss: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = _Pages(api_after_loss, monkeypatch, "PEXPIRE", 10_000)
    await api_after_loss.services.housekeeper._loss_recovery.recover()
    assert len(pages.lock_ttls_ms["messages"]) >= REPORTS
    # The last page has no reports.
    assert len(pages.lock_ttls_ms["reports"]) == REPORTS + 1
    assert min(min(ttls_ms) for ttls_ms in pages.lock_ttls_ms.values()) > 10_000
    assert not await api_after_loss.services.app.store.deployment.generations.is_recovering()


async def test_a_server_that_has_lost_the_lock_reads_no_further_page(
    api_after_loss: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = api_after_loss.services.app.store
    with monkeypatch.context() as patch:
        pages = _Pages(api_after_loss, patch, "SET", "another server")
        await api_after_loss.services.housekeeper._loss_recovery.recover()
    assert {kind: len(ttls_ms) for kind, ttls_ms in pages.lock_ttls_ms.items()} == {"messages": 1, "reports": 0}
    assert await store.deployment.generations.is_recovering()
    await store.cache.one(Call("DEL", (store.keys.loss_recovery_lock,)))
    await api_after_loss.services.housekeeper._loss_recovery.recover()
    assert not await store.deployment.generations.is_recovering()
