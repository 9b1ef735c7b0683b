"""deleteSeconds: what a banned user wrote is recalled in the background, wherever they wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.recalls import written_recalls
from store.base.errors import Unreachable
from store.jobs.job import JobKind
from tests.api.client import Api, Json, private_id, wait_until
from tests.api.conftest import OpenApi
from tests.api.moderation.calls import ADMIN, ban, unban
from tests.api.moderation.conftest import People
from tests.api.threads.calls import thread_of
from tests.api.workspaces.calls import add_members, create_workspace
from tests.api.workspaces.role_calls import add_channel
from tests.clock import DAY_MS, ManualClock


def texts(messages: list[Json]) -> list[str | None]:
    return [message["content"] for message in messages]


def jobs(api: Api, user: str, state: str) -> int:
    return api.database["jobs"].count_documents({"k": JobKind.RECALLS.value, "u": user, "st": state})


async def first_job_is_done(api: Api, user: str) -> None:
    """Wait until the first job of a ban is done. The second one is due a minute later."""

    async def is_done() -> bool:
        return jobs(api, user, "D") == 1

    await wait_until(is_done)


async def test_messages_in_channels_and_threads_of_the_workspace_are_recalled(api: Api, people: People) -> None:
    second = await add_channel(api, people.workspace, "second")
    elsewhere = await create_workspace(api, people.owner)
    await add_members(api, elsewhere, people.member)
    other_channel = await add_channel(api, elsewhere)
    root = (await api.send(people.owner, people.channel, "root"))["message"]
    await api.send(people.member, people.channel, "spam 1")
    await api.send(people.member, root["id"], "spam 2", broadcast=True)
    await api.send(people.member, second, "spam 3")
    await api.send(people.owner, second, "kept")
    await api.send(people.member, other_channel, "elsewhere")
    await api.send(people.member, people.owner, "private")
    await ban(api, people.moderator, people.workspace, people.member, delete=3600)
    await first_job_is_done(api, people.member)
    assert texts(await api.history(people.owner, people.channel)) == ["root", None, None]
    assert texts(await api.history(people.owner, thread_of(root))) == [None]
    assert texts(await api.history(people.owner, second)) == [None, "kept"]
    assert texts(await api.history(people.owner, other_channel)) == ["elsewhere"]
    assert texts(await api.history(people.owner, private_id(people.owner, people.member))) == ["private"]
    row = api.database["messages"].find_one({"c": second, "s": 1})
    assert row is not None and row["rb"] == people.moderator
    assert jobs(api, people.member, "W") == 1


async def test_a_ban_without_delete_seconds_recalls_nothing(api: Api, people: People) -> None:
    await api.send(people.member, people.channel, "stays")
    await ban(api, people.moderator, people.workspace, people.member)
    assert api.database["jobs"].count_documents({"u": people.member}) == 0
    assert texts(await api.history(people.owner, people.channel)) == ["stays"]


async def test_a_ban_from_the_deployment_recalls_everywhere(api: Api, people: People) -> None:
    group = await api.create_group(people.owner, people.member, people.outsider)
    await api.send(people.member, group, "spam 1")
    await api.send(people.member, people.owner, "spam 2")
    await api.send(people.owner, people.member, "answer")
    await api.send(people.member, people.channel, "spam 3")
    await ban(api, ADMIN, None, people.member, delete=600)
    await first_job_is_done(api, people.member)
    assert texts(await api.history(people.owner, group)) == [None]
    assert texts(await api.history(people.owner, private_id(people.owner, people.member))) == [None, "answer"]
    assert texts(await api.history(people.owner, people.channel)) == [None]


async def test_another_server_continues_after_the_death_of_one(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_recalls, "_RECALLS_PER_STEP", 2)
    async with open_api("dying") as survivor:
        async with open_api("dying", workers=False) as dying:
            owner, member = await dying.create_users("owner", "member")
            workspace = await create_workspace(dying, owner)
            await add_members(dying, workspace, member)
            channel = await add_channel(dying, workspace)
            for number in range(7):
                await dying.send(member, channel, f"spam {number}")
            await ban(dying, owner, workspace, member, delete=60)
        await first_job_is_done(survivor, member)
        assert texts(await survivor.history(owner, channel)) == [None] * 7


async def test_a_job_goes_on_where_it_was_interrupted(
    api: Api, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_recalls, "_RECALLS_PER_STEP", 2)
    for number in range(6):
        await api.send(people.member, people.channel, f"spam {number}")
    recall_all, calls = written_recalls.recall_all, list[int]()

    async def fail_once(app: Any, messages: Any, *rest: Any) -> Any:
        calls.append(messages[0].seq)
        if len(calls) == 2:
            raise Unreachable("a test")
        return await recall_all(app, messages, *rest)

    monkeypatch.setattr(written_recalls, "recall_all", fail_once)
    await ban(api, people.moderator, people.workspace, people.member, delete=60)
    await first_job_is_done(api, people.member)
    assert calls == [1, 3, 3, 5]
    assert texts(await api.history(people.owner, people.channel)) == [None] * 6


async def test_what_a_user_writes_after_the_lift_of_the_ban_stays(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("lifted", clock) as api:
        owner, member = await api.create_users("owner", "member")
        workspace = await create_workspace(api, owner)
        await add_members(api, workspace, member)
        channel = await add_channel(api, workspace)
        await api.send(member, channel, "spam")
        await ban(api, owner, workspace, member, delete=60)
        await first_job_is_done(api, member)
        assert await unban(api, owner, workspace, member) is True
        await api.advance_days(clock, 120_000 / DAY_MS)
        await add_members(api, workspace, member)
        await api.send(member, channel, "sorry")
        # The time of jobs is that of MongoDB.
        api.database["jobs"].update_one({"u": member, "st": "W"}, {"$set": {"d": 0}})

        async def is_done() -> bool:
            return jobs(api, member, "D") == 2

        await wait_until(is_done)
        assert texts(await api.history(owner, channel)) == [None, "sorry"]
