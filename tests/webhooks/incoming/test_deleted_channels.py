"""Incoming webhooks of channels and workspaces that are deleted."""

from __future__ import annotations

from store.channels.channel_removal import DELAY_MS
from store.mongo.collections import REMOVALS, WEBHOOK_COUNTS, WEBHOOKS
from store.workspaces.workspace_removal import GRACE_MS
from tests.api.channels.calls import DELETE
from tests.api.client import Api, Refusal
from tests.api.conftest import OpenApi
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.clock import ManualClock
from tests.webhooks.incoming.hooks import Hooks, refusal_of
from tests.webhooks.incoming.test_managing import DELETE_HOOK, LIST_HOOKS

GONE = (404, "NOT_FOUND", None)


async def test_the_webhook_of_a_deleted_channel_ends_with_the_channel(
    api: Api, hooks: Hooks, other_hooks: Hooks, workspace: SampleChannels
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    parent = (await hooks.sent(hook))["id"]
    await api.data(workspace.admin, DELETE, id=workspace.general)
    for each in (hooks, other_hooks):
        assert refusal_of(await each.send(hook)) == GONE
        assert refusal_of(await each.send(hook, threadOf=parent))[:2] == (404, "NOT_FOUND")
    store = api.services.app.store
    assert (await api.data(workspace.owner, LIST_HOOKS, id=workspace.id))["webhooks"] == []
    refusal = await api.expect_refusal(workspace.owner, DELETE_HOOK, id=hook.id)
    assert refusal == Refusal("NOT_FOUND", "webhookId")
    due = {"$set": {"at": store.clock.now_ms() - DELAY_MS}}
    await store.mongo.update_one(REMOVALS, {"_id": workspace.general}, due)
    assert await store.channel_removal.remove_due() == 1
    assert await store.mongo.find(WEBHOOKS, {"_id": hook.id}) == []
    (count,) = await store.mongo.find(WEBHOOK_COUNTS, {"_id": f"INCOMING {workspace.general}"})
    assert count["n"] == 0
    assert refusal_of(await hooks.send(hook)) == GONE


async def test_the_webhooks_of_a_deleted_workspace_are_removed(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("removal", clock) as api:
        workspace = await create_sample_channels(api)
        hooks = Hooks(api)
        hook = await hooks.create(workspace.admin, workspace.general)
        await api.data(workspace.owner, "mutation ($id: ID!) { deleteWorkspace(workspaceId: $id) }", id=workspace.id)
        assert refusal_of(await hooks.send(hook)) == GONE
        clock.ms += GRACE_MS
        store = api.services.app.store
        assert await store.workspace_removal.run() == 1
        assert await store.mongo.find(WEBHOOKS, {}) == []
        assert refusal_of(await hooks.send(hook)) == GONE
