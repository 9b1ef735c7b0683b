"""Permissions: managing webhooks, and events that a webhook gets. Refused calls change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from store.workspaces.permissions import OF_EVERYONE, Permission
from tests.api.client import Api, Json, Refusal, make_caller
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.webhooks.calls import (
    CREATE,
    DELETE,
    DELIVERIES,
    LIST,
    NODE,
    REDELIVER,
    ROTATE,
    admin,
    create_webhook,
    find_webhook,
    wait_for_delivered,
)
from tests.webhooks.conftest import settle
from tests.webhooks.endpoint import Endpoint

NOT_FOUND, FORBIDDEN = Refusal("NOT_FOUND", "webhookId"), Refusal("FORBIDDEN")
SINCE = "2026-01-01T00:00:00.000Z"
MANAGING = {
    "rotating": (ROTATE, {}),
    "deleting": (DELETE, {}),
    "redelivering": (REDELIVER, {"since": SINCE}),
    "listing deliveries": (DELIVERIES, {}),
}


@pytest.fixture
async def workspace(api: Api) -> SampleChannels:
    return await create_sample_channels(api)


def stored(api: Api) -> list[Json]:
    """Return all rows of webhooks, without those that are being removed, and without leases."""
    rows = api.database["webhooks"].find({"d": {"$exists": False}}, {"lo": 0, "lu": 0}, sort=[("_id", 1)])
    return [dict(row) for row in rows]


async def create_in(api: Api, workspace: SampleChannels, url: str, *events: str, **more: Any) -> Json:
    return await create_webhook(api, workspace.admin, url, *events, workspace=workspace.id, **more)


# Managing


@pytest.mark.parametrize("operation", MANAGING)
async def test_only_members_with_the_right_manage_webhooks_of_a_workspace(
    api: Api, workspace: SampleChannels, endpoint: Endpoint, operation: str
) -> None:
    webhook = (await create_in(api, workspace, endpoint.url))["id"]
    document, more = MANAGING[operation]
    before = stored(api)
    for user, refusal in ((workspace.member, FORBIDDEN), (workspace.outsider, NOT_FOUND)):
        assert await api.expect_refusal(user, document, id=webhook, **more) == refusal
        assert (await api.data(user, NODE, id=webhook))["node"] is None
    root = make_caller(workspace.outsider, admin().role)
    assert await api.expect_refusal(root, document, id=webhook, **more) == NOT_FOUND
    assert stored(api) == before
    await api.data(workspace.owner, document, id=webhook, **more)


@pytest.mark.parametrize("operation", MANAGING)
async def test_only_admins_manage_webhooks_of_the_deployment(api: Api, endpoint: Endpoint, operation: str) -> None:
    (user,) = await api.create_users("user")
    webhook = (await create_webhook(api, admin(), endpoint.url))["id"]
    document, more = MANAGING[operation]
    before = stored(api)
    for caller in (make_caller(user), make_caller(user, type(admin().role)("service"))):
        assert await api.expect_refusal(caller, document, id=webhook, **more) == NOT_FOUND
        assert (await api.data(caller, NODE, id=webhook))["node"] is None
    assert stored(api) == before
    await api.data(admin(), document, id=webhook, **more)


@pytest.mark.parametrize("id", ["h_1", "h_", "x", "", "h_99999999999999999999", "w_1"])
@pytest.mark.parametrize("operation", MANAGING)
async def test_an_unknown_webhook_is_not_found(api: Api, operation: str, id: str) -> None:
    document, more = MANAGING[operation]
    assert await api.expect_refusal(admin(), document, id=id, **more) == NOT_FOUND


async def test_creating_and_listing_need_the_right(api: Api, workspace: SampleChannels, endpoint: Endpoint) -> None:
    await create_in(api, workspace, endpoint.url)
    before = stored(api)
    fields = {"url": endpoint.url, "events": ["MESSAGE_CREATED"]}
    outside = Refusal("NOT_FOUND", "workspaceId")
    for user, owner, refusal in (
        (workspace.member, workspace.id, FORBIDDEN),
        (workspace.outsider, workspace.id, outside),
        (workspace.owner, "w_1", outside),
        (workspace.owner, "nonsense", outside),
        (workspace.owner, None, FORBIDDEN),
    ):
        assert await api.expect_refusal(user, CREATE, workspace=owner, **fields) == refusal
        assert await api.expect_refusal(user, LIST, workspace=owner) == refusal
    assert stored(api) == before


async def test_secrets_are_shown_by_creating_and_rotating_only(
    api: Api, workspace: SampleChannels, endpoint: Endpoint
) -> None:
    created = await create_in(api, workspace, endpoint.url, "MESSAGE_CREATED", "CHANNEL_CHANGED")
    rotated = (await api.data(workspace.owner, ROTATE, id=created["id"]))["rotateWebhookSecret"]
    assert created["secret"] and rotated["secret"] and created["secret"] != rotated["secret"]
    assert created | {"secret": rotated["secret"]} == rotated
    assert created["events"] == ["MESSAGE_CREATED", "CHANNEL_CHANGED"]
    assert (created["kind"], created["state"], created["url"]) == ("OUTGOING", "ACTIVE", endpoint.url)
    (listed,) = (await api.data(workspace.owner, LIST, workspace=workspace.id))["webhooks"]
    assert listed == created | {"secret": None}
    found = await find_webhook(api, workspace.owner, created["id"])
    assert found == listed | {"__typename": "Webhook"}
    await api.data(workspace.owner, DELETE, id=created["id"])
    assert (await api.data(workspace.owner, LIST, workspace=workspace.id))["webhooks"] == []
    assert (await api.data(workspace.owner, NODE, id=created["id"]))["node"] is None


async def test_the_number_of_webhooks_is_limited(
    api: Api, workspace: SampleChannels, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolvers.webhooks.outgoing.managing.MAX_OUTGOING", 2)
    first = await create_in(api, workspace, endpoint.url)
    await create_in(api, workspace, endpoint.url)
    before = stored(api)
    fields = {"workspace": workspace.id, "url": endpoint.url, "events": ["MESSAGE_CREATED"]}
    assert await api.expect_refusal(workspace.owner, CREATE, **fields) == Refusal("LIMIT_REACHED", "workspaceId")
    assert stored(api) == before
    await api.data(workspace.owner, DELETE, id=first["id"])
    await create_in(api, workspace, endpoint.url)


# Bad input


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "https://10.0.0.1/",
        "https://192.168.1.1/hook",
        "https://169.254.169.254/latest/meta-data",
        "https://[fd00::1]/",
        "https://user:password@example.com/",
        "https://",
        "ftp://example.com/",
        "file:///etc/passwd",
        "nonsense",
        "",
        "https://exa mple.com/",
        "https://example.com/" + "x" * 2_048,
        "https://example.com/\n",
        "https://exämple.com/",
    ],
)
async def test_only_public_https_addresses_are_accepted(api: Api, url: str) -> None:
    before = stored(api)
    refusal = await api.expect_refusal(admin(), CREATE, url=url, events=["MESSAGE_CREATED"])
    assert refusal == Refusal("INVALID_INPUT", "url")
    assert stored(api) == before


async def test_loopback_is_refused_unless_the_operator_allows_it(open_api: Any) -> None:
    async with open_api("without loopback") as api:
        for url in ("http://127.0.0.1:9000/", "https://localhost/", "https://127.0.0.1/", "https://[::1]/"):
            refusal = await api.expect_refusal(admin(), CREATE, url=url, events=["MESSAGE_CREATED"])
            assert refusal == Refusal("INVALID_INPUT", "url")
        assert stored(api) == []


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"events": []}, Refusal("INVALID_INPUT", "events")),
        ({"channels": []}, Refusal("INVALID_INPUT", "channelIds")),
        ({"channels": ["nonsense"]}, Refusal("NOT_FOUND", "channelIds")),
        ({"channels": ["c_1.1"]}, Refusal("NOT_FOUND", "channelIds")),
        ({"channels": ["@staff"]}, Refusal("NOT_FOUND", "channelIds")),
        ({"channels": ["@general", "@staff"]}, Refusal("NOT_FOUND", "channelIds")),
        ({"channels": ["@general"], "workspace": None}, Refusal("INVALID_INPUT", "channelIds")),
    ],
)
async def test_bad_input_creates_nothing(
    api: Api, workspace: SampleChannels, endpoint: Endpoint, fields: Json, refusal: Refusal
) -> None:
    caller = make_caller(workspace.admin, admin().role)
    channels = [getattr(workspace, each[1:]) if each.startswith("@") else each for each in fields.get("channels") or []]
    variables = {"workspace": workspace.id, "url": endpoint.url, "events": ["MESSAGE_CREATED"]} | fields
    if "channels" in fields:
        variables["channels"] = channels
    before = stored(api)
    assert await api.expect_refusal(caller, CREATE, **variables) == refusal
    assert stored(api) == before


# Events under the rights of the creator


async def test_a_webhook_of_a_workspace_gets_what_its_creator_can_read(
    api: Api, workspace: SampleChannels, endpoint: Endpoint
) -> None:
    webhook = await create_webhook(api, workspace.owner, endpoint.url, workspace=workspace.id)
    await api.send(workspace.member, workspace.staff, "secret")
    await api.send(workspace.member, workspace.other, "private")
    message = (await api.send(workspace.member, workspace.general, "public"))["message"]
    await api.send(workspace.member, message["id"], "reply")
    await endpoint.wait_for(2)
    await settle(api)
    assert sorted(endpoint.texts()) == ["public", "reply"]
    assert len(await wait_for_delivered(api, workspace.owner, webhook["id"], 2)) == 2


async def test_a_webhook_of_channels_gets_only_these(api: Api, workspace: SampleChannels, endpoint: Endpoint) -> None:
    await workspace.set_facts(workspace.moderator, roles=frozenset({workspace.admin_role}))
    await create_webhook(api, workspace.moderator, endpoint.url, workspace=workspace.id, channels=[workspace.staff])
    await api.send(workspace.member, workspace.general, "public")
    await api.send(workspace.member, workspace.staff, "staff")
    await endpoint.wait_for(1)
    await settle(api)
    assert endpoint.texts() == ["staff"]


@pytest.mark.parametrize("loss", ["overwrite", "removal", "role"])
async def test_no_event_goes_out_after_the_creator_lost_the_rights(
    api: Api, workspace: SampleChannels, endpoint: Endpoint, loss: str
) -> None:
    await workspace.set_facts(workspace.other, roles=frozenset({workspace.admin_role}))
    webhook = await create_webhook(api, workspace.other, endpoint.url, workspace=workspace.id)
    endpoint.decide = lambda _: 500
    await api.send(workspace.member, workspace.general, "before")
    await endpoint.wait_for_attempts(1)
    endpoint.decide = lambda _: 200
    if loss == "removal":
        await workspace.remove(workspace.other)
    else:
        await workspace.set_facts(workspace.other, roles=frozenset())
    if loss == "overwrite":
        await workspace.overwrite(workspace.general, workspace.other, Permission.VIEW_CHANNEL)
    if loss == "role":
        everyone = replace(
            workspace.policy.roles[workspace.everyone], permissions=OF_EVERYONE & ~Permission.READ_HISTORY
        )
        roles = {**workspace.policy.roles, workspace.everyone: everyone}
        await workspace.change(replace(workspace.policy, roles=roles))
    await api.send(workspace.member, workspace.general, "after")
    await api.data(workspace.owner, REDELIVER, id=webhook["id"], since=SINCE)
    await settle(api)
    assert endpoint.taken == []
    assert api.database["webhook_events"].count_documents({"w": webhook["id"]}) == 0


async def test_deleting_a_webhook_stops_it_and_removes_its_events(
    api: Api, workspace: SampleChannels, endpoint: Endpoint
) -> None:
    webhook = await create_in(api, workspace, endpoint.url)
    endpoint.decide = lambda _: 500
    await api.send(workspace.member, workspace.general, "before")
    await endpoint.wait_for_attempts(1)
    endpoint.decide = lambda _: 200
    await api.data(workspace.owner, DELETE, id=webhook["id"])
    await api.send(workspace.member, workspace.general, "after")
    worker = api.services.webhooks.worker
    while api.database["webhooks"].find_one({"_id": webhook["id"]}) is not None:
        await worker.remove_deleted()
    await settle(api)
    assert endpoint.taken == []
    for name in ("webhook_events", "webhook_lines"):
        assert api.database[name].count_documents({"w": webhook["id"]}) == 0


async def test_webhooks_of_a_deleted_workspace_are_removed(
    api: Api, workspace: SampleChannels, endpoint: Endpoint
) -> None:
    await create_in(api, workspace, endpoint.url)
    store = api.services.app.store
    while await store.workspace_removal.step(workspace.id):
        pass
    assert await store.webhooks.list_of_workspace(workspace.id) == []


async def test_an_admins_webhook_gets_everything(api: Api, workspace: SampleChannels, endpoint: Endpoint) -> None:
    await create_webhook(api, admin(), endpoint.url)
    group = await api.create_group(workspace.owner, workspace.member, workspace.other)
    await api.send(workspace.member, workspace.staff, "staff")
    await api.send(workspace.member, workspace.other, "private")
    await api.send(workspace.member, group, "group")
    await endpoint.wait_for(3)
    assert sorted(endpoint.texts()) == ["group", "private", "staff"]
