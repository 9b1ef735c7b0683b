"""Slow mode: the time between two messages of one member."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.api.client import SEND, Api, gather_all, message_input
from tests.api.conftest import OpenApi
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.clock import ManualClock

MAY_WRITE_AT = "query ($id: ID!) { conversation(id: $id) { ... on Channel { slowModeSeconds viewerMayWriteAt } } }"


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
async def process(open_api: OpenApi, clock: ManualClock) -> AsyncIterator[Api]:
    async with open_api("slow", clock) as api:
        yield api


@pytest.fixture
async def workspace(api: Api) -> SampleChannels:
    workspace = await create_sample_channels(api)
    await workspace.change_channel(workspace.general, slow_mode_seconds=30)
    return workspace


async def wait(api: Api, clock: ManualClock, seconds: int) -> None:
    await api.advance_days(clock, seconds / 86_400)


async def test_a_member_waits_between_two_messages(api: Api, workspace: SampleChannels, clock: ManualClock) -> None:
    await api.send(workspace.member, workspace.general)
    await wait(api, clock, 10)
    before = await api.stored_hashes()
    (error,) = (await api.run(workspace.member, SEND, input=message_input(workspace.general)))["errors"]
    assert error["extensions"] == {"code": "SLOW_MODE", "retryable": True, "retryAfterMs": 20_000}
    assert await api.stored_hashes() == before
    await api.send(workspace.other, workspace.general)
    await api.send(workspace.member, workspace.staff)
    await wait(api, clock, 20)
    await api.send(workspace.member, workspace.general)


async def test_the_channel_shows_when_the_caller_may_write(
    api: Api, workspace: SampleChannels, clock: ManualClock
) -> None:
    for user in (workspace.member, workspace.moderator, workspace.owner):
        await api.send(user, workspace.general)
        await api.send(user, workspace.general) if user != workspace.member else None
        shown = (await api.data(user, MAY_WRITE_AT, id=workspace.general))["conversation"]
        assert (shown["viewerMayWriteAt"] is not None) == (user == workspace.member)
    await wait(api, clock, 30)
    shown = (await api.data(workspace.member, MAY_WRITE_AT, id=workspace.general))["conversation"]
    assert shown == {"slowModeSeconds": 30, "viewerMayWriteAt": None}


async def test_only_one_of_several_concurrent_messages_gets_a_place(api: Api, workspace: SampleChannels) -> None:
    answers = await gather_all(
        *(api.run(workspace.member, SEND, input=message_input(workspace.general)) for _ in range(5))
    )
    assert sorted("errors" in answer for answer in answers) == [False] + [True] * 4
    assert len(await api.history(workspace.other, workspace.general)) == 1


async def test_a_repetition_with_the_same_key_does_not_wait(api: Api, workspace: SampleChannels) -> None:
    sent = await api.send(workspace.member, workspace.general, idempotencyKey="k")
    again = await api.send(workspace.member, workspace.general, idempotencyKey="k")
    assert again["replayed"] and again["message"]["id"] == sent["message"]["id"]


async def test_a_refused_message_does_not_take_its_key(api: Api, workspace: SampleChannels, clock: ManualClock) -> None:
    await api.send(workspace.member, workspace.general)
    assert (await api.expect_send_refusal(workspace.member, workspace.general, idempotencyKey="k")).code == "SLOW_MODE"
    await wait(api, clock, 30)
    assert not (await api.send(workspace.member, workspace.general, idempotencyKey="k"))["replayed"]


async def test_a_shorter_slow_mode_is_valid_at_once(api: Api, workspace: SampleChannels, clock: ManualClock) -> None:
    await api.send(workspace.member, workspace.general)
    await workspace.change_channel(workspace.general, slow_mode_seconds=5)
    await wait(api, clock, 5)
    await api.send(workspace.member, workspace.general)
    await workspace.change_channel(workspace.general, slow_mode_seconds=0)
    await api.send(workspace.member, workspace.general)
