"""REPORT_OPENED: sent to those who may read the report now, and not lost."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.errors import Unreachable
from store.workspaces.permissions import OF_EVERYONE, Permission
from tests.api.client import Api
from tests.api.conftest import Deployments, OpenApi
from tests.api.reports.calls import create_workspace_with, make_report, said_by
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.webhooks.calls import REDELIVER, admin, create_webhook
from tests.webhooks.conftest import settle
from tests.webhooks.endpoint import Endpoint, first_of_each

OPENED = "REPORT_OPENED"


@pytest.fixture
async def workspace(api: Api) -> SampleChannels:
    return await create_sample_channels(api)


async def report_insult(api: Api, workspace: SampleChannels, channel: str | None = None, **fields: Any) -> Any:
    message = await said_by(api, workspace.moderator, channel or workspace.general)
    return await make_report(api, workspace.member, message=message, **fields)


async def test_a_report_is_sent_to_webhooks_of_the_workspace_and_the_deployment(
    api: Api, workspace: SampleChannels, endpoint: Endpoint
) -> None:
    other = await create_sample_channels(api)
    for caller, place in ((workspace.admin, workspace.id), (admin(), None), (other.owner, other.id)):
        await create_webhook(api, caller, endpoint.url, OPENED, workspace=place)
    made = await report_insult(api, workspace, reason="HARASSMENT", note="look")
    await settle(api)
    assert len(endpoint.taken) == 2
    first, second = (each.payload for each in endpoint.taken)
    assert first == second and first["type"] == OPENED and first["timestamp"] == made["createdAt"]
    report = first["data"]["report"]
    message = report.pop("message")
    user = {"avatarUrl": None, "isBot": False}
    assert report == {
        "id": made["id"],
        "workspaceId": workspace.id,
        "reporter": user | {"id": workspace.member, "displayName": workspace.member},
        "user": user | {"id": workspace.moderator, "displayName": workspace.moderator},
        "text": "insult",
        "attachment": None,
        "reason": "HARASSMENT",
        "note": "look",
        "state": "OPEN",
        "createdAt": made["createdAt"],
    }
    assert (message["id"], message["content"]) == (made["message"]["id"], "insult")


async def test_a_repetition_is_not_sent_again(api: Api, workspace: SampleChannels, endpoint: Endpoint) -> None:
    await create_webhook(api, workspace.admin, endpoint.url, OPENED, workspace=workspace.id)
    made = await report_insult(api, workspace)
    await make_report(api, workspace.member, message=made["message"]["id"])
    await settle(api)
    assert [each.data["report"]["id"] for each in endpoint.received] == [made["id"]]


async def test_reports_of_the_deployment_are_sent_to_its_webhooks_only(
    api: Api, workspace: SampleChannels, endpoint: Endpoint
) -> None:
    await create_webhook(api, workspace.admin, endpoint.url, OPENED, workspace=workspace.id)
    made = await make_report(api, workspace.member, user=workspace.other)
    private = await said_by(api, workspace.other, workspace.member, "private")
    await settle(api)
    assert endpoint.taken == []
    await create_webhook(api, admin(), endpoint.url, OPENED)
    again = await make_report(api, workspace.moderator, user=workspace.other)
    of_message = await make_report(api, workspace.member, message=private)
    await settle(api)
    sent = {each.data["report"]["id"]: each.data["report"] for each in endpoint.taken}
    assert sent.keys() == {again["id"], of_message["id"]} and made["id"] not in sent
    assert sent[of_message["id"]]["text"] == "private" and sent[again["id"]]["message"] is None


async def test_a_webhook_of_channels_gets_the_reports_about_messages_there(
    api: Api, workspace: SampleChannels, endpoint: Endpoint
) -> None:
    await workspace.set_facts(workspace.moderator, roles=frozenset({workspace.admin_role}))
    await create_webhook(
        api, workspace.moderator, endpoint.url, OPENED, workspace=workspace.id, channels=[workspace.staff]
    )
    await report_insult(api, workspace)
    made = await report_insult(api, workspace, workspace.staff)
    await settle(api)
    assert [each.data["report"]["id"] for each in endpoint.taken] == [made["id"]]


async def test_a_creator_outside_a_private_channel_gets_the_reported_text_only(
    api: Api, workspace: SampleChannels, endpoint: Endpoint
) -> None:
    await create_webhook(api, workspace.owner, endpoint.url, OPENED, workspace=workspace.id)
    await report_insult(api, workspace, workspace.staff)
    await settle(api)
    (sent,) = endpoint.taken
    assert (sent.data["report"]["message"], sent.data["report"]["text"]) == (None, "insult")


@pytest.mark.parametrize("loss", ["role", "removal", "never"])
async def test_nothing_is_sent_without_the_right_at_the_moment_of_sending(
    api: Api, endpoint: Endpoint, loss: str
) -> None:
    right = Permission.VIEW_REPORTS if loss != "never" else Permission(0)
    workspace = await create_workspace_with(api, Permission.MANAGE_WEBHOOKS | right)
    webhook = await create_webhook(api, workspace.moderator, endpoint.url, OPENED, workspace=workspace.id)
    endpoint.decide = lambda _: 500
    message = await said_by(api, workspace.other, workspace.general)
    await make_report(api, workspace.member, message=message)
    if loss != "never":
        await endpoint.wait_for_attempts(1)
    await settle(api)
    endpoint.decide = lambda _: 200
    if loss == "role":
        await workspace.give(workspace.moderator_role, OF_EVERYONE | Permission.MANAGE_WEBHOOKS)
    elif loss == "removal":
        await workspace.remove(workspace.moderator)
    await api.data(workspace.owner, REDELIVER, id=webhook["id"], since="2026-01-01T00:00:00.000Z")
    await settle(api)
    assert endpoint.taken == []
    assert loss != "never" or endpoint.received == []


async def test_another_process_notes_the_report_of_one_that_died(
    open_api: OpenApi, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.delivery.reports.opened_reports.TAKEOVER_MS", 0)
    async with (
        open_api("dying", allow_loopback=True, workers=False) as dying,
        open_api("dying", allow_loopback=True) as api,
    ):
        workspace = await create_sample_channels(api)
        await create_webhook(api, workspace.owner, endpoint.url, OPENED, workspace=workspace.id)

        async def die(_: Any) -> None:
            raise Unreachable("the process died")

        monkeypatch.setattr(dying.services.app.webhook_notes, "note_report", die)
        made = await report_insult(dying, workspace)
        # Or its housekeeping has noted it already.
        await api.services.app.reports.note_abandoned()
        await settle(api)
        await endpoint.wait_for(1)
        assert [each.data["report"]["id"] for each in first_of_each(endpoint.taken)] == [made["id"]]
        assert await api.services.app.reports.note_abandoned() == 0


async def test_reports_whose_notes_redis_lost_are_sent(
    open_api: OpenApi, deployments: Deployments, endpoint: Endpoint
) -> None:
    async with open_api("lost reports", allow_loopback=True, workers=False) as api:
        workspace = await create_sample_channels(api)
        await create_webhook(api, workspace.owner, endpoint.url, OPENED, workspace=workspace.id)
        made = [(await report_insult(api, workspace))["id"] for _ in range(3)]
        deployments.flush_redis("lost reports")
        await api.services.housekeeper.check_redis()
        async with open_api("lost reports", allow_loopback=True):
            await endpoint.wait_for(3)
        assert {each.data["report"]["id"] for each in endpoint.taken if each.type == OPENED} == {*made}


async def test_without_webhooks_a_report_leaves_no_note(api: Api, workspace: SampleChannels) -> None:
    made = await report_insult(api, workspace)
    assert "d" not in (api.database["reports"].find_one({"_id": made["id"]}) or {})
    assert await api.services.app.store.webhook_notes.count() == 0
