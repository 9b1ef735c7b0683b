"""Creating, rotating, listing and deleting incoming webhooks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from store.messages.outbox.outbox_store import OutboxStore
from store.mongo.collections import USERS, WEBHOOK_COUNTS
from store.webhooks.webhook import MAX_INCOMING, OLD_SECRET_MS
from store.workspaces.permissions import Permission
from tests.api.client import Api, Refusal, gather_all
from tests.api.conftest import OpenApi
from tests.api.paused_step import PausedStep
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.api.workspaces.calls import LEAVE
from tests.api.workspaces.role_calls import overwrite
from tests.clock import DAY_MS, ManualClock
from tests.webhooks.incoming.hooks import CREATE_HOOK, Hook, Hooks, refusal_of

WEBHOOK = "id kind url secret"
DELETE_HOOK = "mutation ($id: ID!) { deleteWebhook(webhookId: $id) }"
ROTATE_HOOK = f"mutation ($id: ID!) {{ rotateWebhookSecret(webhookId: $id) {{ {WEBHOOK} }} }}"
LIST_HOOKS = f"query ($id: ID!) {{ webhooks(workspaceId: $id) {{ {WEBHOOK} }} }}"
NODE = f"query ($id: ID!) {{ node(id: $id) {{ __typename ... on Webhook {{ {WEBHOOK} }} }} }}"
BAD_INPUT = [
    ({"name": ""}, "name"),
    ({"name": " "}, "name"),
    ({"name": "x" * 101}, "name"),
    ({"name": "a\nb"}, "name"),
    ({"avatar": "ftp://example.org/x.png"}, "avatarUrl"),
    ({"avatar": "https://example.org/" + "x" * 2048}, "avatarUrl"),
]
GONE = (404, "NOT_FOUND", None)


async def delete(hooks: Hooks, user: str, hook: Hook) -> None:
    assert (await hooks.api.data(user, DELETE_HOOK, id=hook.id))["deleteWebhook"] is True


async def rotate(hooks: Hooks, user: str, hook: Hook) -> Hook:
    rotated = (await hooks.api.data(user, ROTATE_HOOK, id=hook.id))["rotateWebhookSecret"]
    assert (rotated["id"], rotated["secret"]) == (hook.id, None)
    return Hook(hook.id, rotated["url"])


async def list_ids(hooks: Hooks, user: str, workspace: str) -> list[str]:
    found = (await hooks.api.data(user, LIST_HOOKS, id=workspace))["webhooks"]
    assert all(webhook["secret"] is None and webhook["kind"] == "INCOMING" for webhook in found)
    return [webhook["id"] for webhook in found]


async def test_the_address_is_whole_and_the_rest_is_that_of_an_incoming_webhook(
    api: Api, workspace: SampleChannels
) -> None:
    found = await api.data(workspace.admin, CREATE_HOOK, channel=workspace.general, name="ci\u200b")
    created = found["createIncomingWebhook"]
    id, url = created["id"], created["url"]
    assert created == {
        "__typename": "Webhook",
        "id": id,
        "kind": "INCOMING",
        "name": "ci",
        "url": url,
        "secret": None,
        "events": [],
        "state": "ACTIVE",
        "failingSince": None,
    }
    base, token = url.rsplit("/", 1)
    assert base == f"{api.services.app.public_url}/webhooks/{id}" and len(token) >= 43


@pytest.mark.parametrize(("given", "field"), BAD_INPUT)
async def test_bad_input_creates_nothing(
    api: Api, hooks: Hooks, workspace: SampleChannels, given: dict[str, Any], field: str
) -> None:
    refusal = await hooks.refuse_create(workspace.admin, workspace.general, **given)
    assert refusal == Refusal("INVALID_INPUT", field)
    assert await list_ids(hooks, workspace.admin, workspace.id) == []


@pytest.mark.parametrize(
    ("user", "channel", "refusal"),
    [
        ("outsider", "general", Refusal("NOT_FOUND", "channelId")),
        ("member", "general", Refusal("FORBIDDEN")),
        ("moderator", "general", Refusal("FORBIDDEN")),
        ("member", "old", Refusal("FORBIDDEN")),
        ("admin", "old", Refusal("ARCHIVED", "channelId")),
        ("other", "staff", Refusal("NOT_FOUND", "channelId")),
    ],
)
async def test_creating_needs_the_permission_in_a_channel_that_is_not_archived(
    hooks: Hooks, workspace: SampleChannels, user: str, channel: str, refusal: Refusal
) -> None:
    named = getattr(workspace, channel)
    assert await hooks.refuse_create(getattr(workspace, user), named) == refusal
    assert await hooks.api.services.app.store.webhooks.list_of_channel(named) == []


async def test_concurrent_creations_do_not_exceed_the_limit_of_a_channel(
    hooks: Hooks, other_hooks: Hooks, workspace: SampleChannels
) -> None:
    async def create(where: Hooks) -> str:
        answer = await where.api.run(workspace.admin, CREATE_HOOK, channel=workspace.general, name="ci")
        return answer["errors"][0]["extensions"]["code"] if "errors" in answer else "created"

    outcomes = await gather_all(*(create(where) for where in (hooks, other_hooks) for _ in range(MAX_INCOMING)))
    assert sorted(outcomes) == ["LIMIT_REACHED"] * MAX_INCOMING + ["created"] * MAX_INCOMING
    refusal = await hooks.refuse_create(workspace.admin, workspace.general)
    assert refusal == Refusal("LIMIT_REACHED", "channelId")
    store = hooks.api.services.app.store
    assert len(await store.webhooks.list_of_channel(workspace.general)) == MAX_INCOMING
    (count,) = await store.mongo.find(WEBHOOK_COUNTS, {"_id": f"INCOMING {workspace.general}"})
    assert count["n"] == MAX_INCOMING
    # Another one may be created where one was deleted, and in other channels.
    first = (await store.webhooks.list_of_channel(workspace.general))[0]
    await delete(hooks, workspace.admin, Hook(first.id, ""))
    await other_hooks.create(workspace.admin, workspace.general)
    assert await hooks.refuse_create(workspace.admin, workspace.general) == refusal


async def test_a_deleted_webhook_sends_nothing_more_and_stays_the_author(
    hooks: Hooks, other_hooks: Hooks, workspace: SampleChannels
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    await hooks.sent(hook, "before")
    await delete(other_hooks, workspace.admin, hook)
    for each in (hooks, other_hooks):
        assert refusal_of(await each.send(hook, "after")) == GONE
    (message,) = await hooks.messages(workspace.member, workspace.general)
    assert (message["content"], message["authorName"], message["sender"]["id"]) == ("before", "ci", hook.id)
    assert await list_ids(hooks, workspace.admin, workspace.id) == []


@pytest.mark.parametrize("in_thread", [False, True])
async def test_no_message_gets_a_place_after_the_deletion_was_answered(
    hooks: Hooks, other_hooks: Hooks, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch, in_thread: bool
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    parent = (await hooks.sent(hook, "before"))["id"]
    more = {"threadOf": parent} if in_thread else {}
    name = "reserve_reply" if in_thread else "reserve_in_channel"
    with monkeypatch.context() as pausing:
        # The message is judged, and has no place yet.
        step = PausedStep(OutboxStore, name, pausing, once=True)
        sending = asyncio.create_task(hooks.send(hook, "too late", idempotencyKey="k", **more))
        await step.reached.wait()
        await delete(other_hooks, workspace.admin, hook)
        step.resume.set()
        answer = await sending
    assert answer.status_code == 404
    assert len(await hooks.messages(workspace.member, workspace.general)) == 1
    assert await hooks.messages(workspace.member, f"t_1_{workspace.general}") == []


@pytest.mark.parametrize(
    ("user", "code"), [("member", "FORBIDDEN"), ("moderator", "FORBIDDEN"), ("outsider", "NOT_FOUND")]
)
async def test_others_neither_rotate_nor_delete_nor_list_webhooks(
    hooks: Hooks, workspace: SampleChannels, user: str, code: str
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    before = await hooks.row(hook)
    named = getattr(workspace, user)
    refusal = Refusal(code, "webhookId" if code == "NOT_FOUND" else None)
    for change in (DELETE_HOOK, ROTATE_HOOK):
        assert await hooks.api.expect_refusal(named, change, id=hook.id) == refusal
    assert (await hooks.api.expect_refusal(named, LIST_HOOKS, id=workspace.id)).code == code
    # To others the id is that of a user.
    assert (await hooks.api.data(named, NODE, id=hook.id))["node"] == {"__typename": "User"}
    assert await hooks.row(hook) == before
    await hooks.sent(hook)


async def test_webhooks_of_channels_that_a_manager_cannot_see_are_hidden(
    hooks: Hooks, workspace: SampleChannels
) -> None:
    everyone = workspace.policy.roles[workspace.everyone]
    allowed = replace(everyone, permissions=everyone.permissions | Permission.MANAGE_WEBHOOKS)
    await workspace.change(replace(workspace.policy, roles={**workspace.policy.roles, everyone.id: allowed}))
    shown = await hooks.create(workspace.member, workspace.general)
    hidden = await hooks.create(workspace.member, workspace.staff)
    assert await list_ids(hooks, workspace.member, workspace.id) == [shown.id, hidden.id]
    assert await list_ids(hooks, workspace.other, workspace.id) == [shown.id]
    for change in (DELETE_HOOK, ROTATE_HOOK):
        refusal = await hooks.api.expect_refusal(workspace.other, change, id=hidden.id)
        assert refusal == Refusal("NOT_FOUND", "webhookId")
    seen = [(await hooks.api.data(workspace.other, NODE, id=hook.id))["node"] for hook in (shown, hidden)]
    assert seen[0] == {"__typename": "Webhook", "id": shown.id, "kind": "INCOMING", "url": shown.url, "secret": None}
    assert seen[1] == {"__typename": "User"}
    deny = {"channel": workspace.general, "user": workspace.other, "deny": ["MANAGE_WEBHOOKS"]}
    await overwrite(hooks.api, workspace.admin, **deny)
    assert await list_ids(hooks, workspace.other, workspace.id) == []
    for change in (DELETE_HOOK, ROTATE_HOOK):
        assert await hooks.api.expect_refusal(workspace.other, change, id=shown.id) == Refusal("FORBIDDEN")
    await hooks.sent(hidden)
    await hooks.sent(shown)


async def test_a_webhook_stays_when_its_creator_leaves(hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    await hooks.api.data(workspace.admin, LEAVE, id=workspace.id)
    await hooks.sent(hook)
    assert await list_ids(hooks, workspace.owner, workspace.id) == [hook.id]
    await delete(hooks, workspace.owner, hook)


async def test_the_old_address_is_valid_for_a_day_after_a_rotation(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("rotating", clock) as api:
        workspace = await create_sample_channels(api)
        hooks = Hooks(api)
        first = await hooks.create(workspace.admin, workspace.general)
        second = await rotate(hooks, workspace.admin, first)
        assert second.token != first.token
        await api.advance_days(clock, (OLD_SECRET_MS - 1) / DAY_MS)
        for hook in (first, second):
            await hooks.sent(hook)
        clock.ms += 1
        assert refusal_of(await hooks.send(first)) == GONE
        await hooks.sent(second)
        third = await rotate(hooks, workspace.admin, second)
        fourth = await rotate(hooks, workspace.admin, third)
        # Two rotations end an address at once.
        assert refusal_of(await hooks.send(second)) == GONE
        for hook in (third, fourth):
            await hooks.sent(hook)


async def test_the_webhook_of_a_deployment_survives_a_restart(open_api: OpenApi) -> None:
    async with open_api("restarting") as api:
        workspace = await create_sample_channels(api)
        hook = await Hooks(api).create(workspace.admin, workspace.general)
        await Hooks(api).sent(hook, "before", username="deploys", idempotencyKey="k")
        member, general = workspace.member, workspace.general
        await api.wait_until_idle()
    async with open_api("restarting") as api:
        hooks = Hooks(api)
        assert (await hooks.sent(hook, "before", username="deploys", idempotencyKey="k"))["replayed"]
        await hooks.sent(hook, "after")
        shown = [(m["content"], m["authorName"]) for m in await hooks.messages(member, general)]
        assert shown == [("before", "deploys"), ("after", "ci")]


async def test_the_user_of_a_webhook_is_a_bot(hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general, avatar="https://example.org/x.png")
    (row,) = await hooks.api.services.app.store.mongo.find(USERS, {"_id": hook.id})
    assert (row["n"], row["av"], row["bot"]) == ("ci", "https://example.org/x.png", True)
