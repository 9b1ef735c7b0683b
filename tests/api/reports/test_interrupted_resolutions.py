"""An action and its resolution do not come apart: repetitions, calls at the same time, and processes that die."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.reports.report import ReportAction, ReportId
from store.workspaces.permissions import OF_EVERYONE, Permission
from tests.api.client import Api, Refusal, gather_all
from tests.api.conftest import OpenApi
from tests.api.paused_step import PausedStep
from tests.api.reports.calls import RESOLVE, audit_of, create_workspace_with, find_node, make_report, resolve, said_by
from tests.api.reports.test_actions import ALL, AUDITED, DOES_NOT_FIT, is_done, report_insult
from tests.api.sample_channels import SampleChannels
from tests.clock import ManualClock

MODERATES = Permission.VIEW_REPORTS | ALL


@pytest.fixture
async def workspace(api: Api) -> SampleChannels:
    return await create_workspace_with(api, MODERATES)


@pytest.mark.parametrize("action", ["NONE", *AUDITED])
async def test_a_repetition_answers_the_first_resolution(api: Api, workspace: SampleChannels, action: str) -> None:
    id, _ = await report_insult(api, workspace)
    resolved = await resolve(api, workspace.moderator, id, action, note="first")
    before = await api.stored_hashes()
    again = await resolve(api, workspace.owner, id, action, note="second")
    assert again | {"message": None} == resolved | {"message": None}
    other = "BAN" if action != "BAN" else "NONE"
    assert await api.expect_refusal(workspace.owner, RESOLVE, id=id, action=other) == DOES_NOT_FIT
    assert await api.stored_hashes() == before


@pytest.mark.parametrize("action", ["NONE", *AUDITED])
async def test_calls_at_the_same_time_resolve_once(
    api: Api, other_api: Api, workspace: SampleChannels, action: str
) -> None:
    id, message = await report_insult(api, workspace)
    resolved = await gather_all(
        *(
            resolve(each, user, id, action)
            for each in (api, other_api)
            for user in (workspace.moderator, workspace.owner)
        )
    )
    assert len({each["resolvedBy"]["id"] for each in resolved}) == 1
    entries = [entry["a"] for entry in audit_of(api, workspace.id)]
    assert entries.count("resolveReport") == 1
    assert action == "NONE" or (AUDITED[action] in entries and await is_done(api, workspace, action, message))


async def test_of_two_actions_at_the_same_time_one_is_done(api: Api, workspace: SampleChannels) -> None:
    id, message = await report_insult(api, workspace)
    answers = await gather_all(
        *(api.run(workspace.moderator, RESOLVE, id=id, action=action) for action in ("RECALL", "TIMEOUT", "NONE"))
    )
    (done,) = [answer["data"]["resolveReport"]["action"] for answer in answers if "errors" not in answer]
    refused = [answer["errors"][0]["extensions"] for answer in answers if "errors" in answer]
    assert [(each["code"], each["field"]) for each in refused] == [("INVALID_INPUT", "action")] * 2
    for action in ("RECALL", "TIMEOUT"):
        assert await is_done(api, workspace, action, message) is (action == done)


@pytest.mark.parametrize("action", list(AUDITED))
async def test_a_repetition_completes_what_a_dead_process_has_begun(
    open_api: OpenApi, api: Api, workspace: SampleChannels, action: str
) -> None:
    id, message = await report_insult(api, workspace)
    async with open_api("main") as dying:
        store = dying.services.app.store

        async def die(*_: Any, **__: Any) -> bool:
            store.mongo.refuse_calls()
            raise Unreachable("the process died")

        store.reports.complete = die  # type: ignore[method-assign]
        refusal = await dying.expect_refusal(workspace.moderator, RESOLVE, id=id, action=action, note="first")
        assert refusal == Refusal("UNAVAILABLE", None, retryable=True)
    assert await is_done(api, workspace, action, message)
    found = await find_node(api, workspace.owner, id)
    assert found is not None and (found["state"], found["action"]) == ("OPEN", None)
    # Nothing else is decided meanwhile.
    assert await api.expect_refusal(workspace.owner, RESOLVE, id=id) == DOES_NOT_FIT
    resolved = await resolve(api, workspace.moderator, id, action, note="first")
    assert (resolved["state"], resolved["action"]) == ("RESOLVED", action)
    entries = [entry["a"] for entry in audit_of(api, workspace.id)]
    assert entries == [AUDITED[action], "resolveReport"]


async def test_a_process_that_dies_before_the_action_leaves_the_report_open(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    id, message = await report_insult(api, workspace)

    async def die(*_: Any, **__: Any) -> None:
        raise Unreachable("the process died")

    with monkeypatch.context() as patched:
        patched.setattr("resolvers.reports.actions.kick_member", die)
        await api.expect_refusal(workspace.moderator, RESOLVE, id=id, action="KICK")
    assert not await is_done(api, workspace, "KICK", message)
    await resolve(api, workspace.moderator, id, "KICK")
    assert await is_done(api, workspace, "KICK", message)


async def test_an_abandoned_resolution_prevents_another_action_for_ten_minutes(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("clocked", clock) as api:
        workspace = await create_workspace_with(api, MODERATES)
        id, _ = await report_insult(api, workspace)
        begun = await api.services.app.store.reports.begin(ReportId(id), ReportAction.BAN)
        assert begun is not None
        assert await api.expect_refusal(workspace.moderator, RESOLVE, id=id) == DOES_NOT_FIT
        await api.advance_days(clock, 11 / 24 / 60)
        assert (await resolve(api, workspace.moderator, id))["action"] == "NONE"


async def test_a_refusal_of_one_call_does_not_undo_the_other(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The moderator is below the admin, the owner is above: both ban at the same time, and one is refused.
    message = await said_by(api, workspace.admin, workspace.general)
    id = (await make_report(api, workspace.member, message=message))["id"]
    store = api.services.app.store.reports
    step = PausedStep(store, "cancel", monkeypatch)
    refused = asyncio.create_task(api.run(workspace.moderator, RESOLVE, id=id, action="BAN"))
    await step.reached.wait()
    completing = PausedStep(store, "complete", monkeypatch, once=True)
    allowed = asyncio.create_task(resolve(api, workspace.owner, id, "BAN"))
    await completing.reached.wait()
    step.resume.set()
    assert (await refused)["errors"][0]["extensions"]["code"] == "FORBIDDEN"
    completing.resume.set()
    resolved = await allowed
    assert (resolved["state"], resolved["action"]) == ("RESOLVED", "BAN")
    assert [entry["a"] for entry in audit_of(api, workspace.id)] == ["banUser", "resolveReport"]


async def test_a_right_that_is_lost_during_the_call_prevents_the_action(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    id, message = await report_insult(api, workspace)
    step = PausedStep(api.services.app.store.reports, "begin", monkeypatch)
    call = asyncio.create_task(api.run(workspace.moderator, RESOLVE, id=id, action="KICK"))
    await step.reached.wait()
    await workspace.give(workspace.moderator_role, OF_EVERYONE | Permission.VIEW_REPORTS)
    step.resume.set()
    assert (await call)["errors"][0]["extensions"]["code"] == "FORBIDDEN"
    assert not await is_done(api, workspace, "KICK", message)
    found = await find_node(api, workspace.moderator, id)
    assert found is not None and found["state"] == "OPEN"
