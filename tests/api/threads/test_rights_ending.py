"""Rights that end between the decision on a change of a thread and its place: the change is decided again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from store.checking.check import Difference
from store.workspaces.permissions import Permission
from subscriptions.delivery import fanout_stage
from tests.api.client import Api, Refusal
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.api.sample_group import SampleGroup, create_sample_group
from tests.api.threads.calls import FOLLOW, LOCK, find_thread
from tests.api.threads.test_following_threads import start_thread
from tests.api.workspaces.role_calls import overwrite
from tests.checking import find_differences

END_IN_GROUP: dict[str, Callable[[Api, SampleGroup], Awaitable[Any]]] = {
    "leave": lambda api, sample: api.leave(sample.admin, sample.group),
    "remove": lambda api, sample: api.remove(sample.owner, sample.group, sample.admin),
    "dissolve": lambda api, sample: api.dissolve(sample.owner, sample.group),
    "demote": lambda api, sample: api.set_role(sample.owner, sample.group, sample.admin, "MEMBER"),
}
END_IN_CHANNEL: dict[str, Callable[[SampleChannels, str], Awaitable[None]]] = {
    "hide": lambda sample, user: sample.overwrite(sample.general, user, Permission.VIEW_CHANNEL),
    "archive": lambda sample, user: sample.change_channel(sample.general, is_archived=True),
    "remove": lambda sample, user: sample.remove(user),
}


def end_before_change(monkeypatch: pytest.MonkeyPatch, api: Api, end: Callable[[], Awaitable[Any]]) -> None:
    """Let a right end after the next change was decided, before it gets its place."""
    outbox = api.services.app.store.outbox
    reserve = outbox.reserve_change

    async def end_and_reserve(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(outbox, "reserve_change", reserve)
        await end()
        return await reserve(*args, **options)

    monkeypatch.setattr(outbox, "reserve_change", end_and_reserve)


@pytest.mark.parametrize(
    ("query", "ending", "code"),
    [
        (LOCK, "leave", "NOT_A_MEMBER"),
        (LOCK, "demote", "FORBIDDEN"),
        (LOCK, "dissolve", "NOT_A_MEMBER"),
        (FOLLOW, "remove", "NOT_A_MEMBER"),
        (FOLLOW, "dissolve", "NOT_A_MEMBER"),
    ],
)
async def test_a_right_that_ends_in_a_group_ends_changes_of_its_threads(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, query: str, ending: str, code: str
) -> None:
    sample = await create_sample_group(api)
    thread = await start_thread(api, sample)
    end_before_change(monkeypatch, api, lambda: END_IN_GROUP[ending](other_api, sample))
    assert await api.expect_refusal(sample.admin, query, id=thread) == Refusal(code, "threadId")
    found = await find_thread(api, sample.member, thread)
    assert found is not None
    assert (found["isLocked"], found["followerCount"]) == (False, 1)


@pytest.mark.parametrize(
    ("query", "ending", "code"),
    [
        (LOCK, "hide", "NOT_FOUND"),
        (LOCK, "archive", "ARCHIVED"),
        (FOLLOW, "remove", "NOT_FOUND"),
        (FOLLOW, "archive", "ARCHIVED"),
    ],
)
async def test_a_right_that_ends_in_a_channel_ends_changes_of_its_threads(
    api: Api, monkeypatch: pytest.MonkeyPatch, query: str, ending: str, code: str
) -> None:
    sample = await create_sample_channels(api)
    parent = (await api.send(sample.member, sample.general, "parent"))["message"]
    thread = (await api.send(sample.member, parent["id"], "reply"))["message"]["conversationId"]
    user = sample.member if query is LOCK else sample.other
    end_before_change(monkeypatch, api, lambda: END_IN_CHANNEL[ending](sample, user))
    assert await api.expect_refusal(user, query, id=thread) == Refusal(code, "threadId")
    found = await find_thread(api, sample.owner, thread)
    assert found is not None
    assert (found["isLocked"], found["followerCount"]) == (False, 1)


async def test_a_change_in_the_parent_that_ends_no_right_does_not_refuse_a_change(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = await create_sample_group(api)
    thread = await start_thread(api, sample)
    end_before_change(monkeypatch, api, lambda: other_api.leave(sample.other_member, sample.group))
    assert (await api.data(sample.admin, LOCK, id=thread))["lockThread"]["isLocked"]


def end_before_fan_out(monkeypatch: pytest.MonkeyPatch, end: Callable[[], Awaitable[Any]]) -> None:
    """Let a right end after the next change has got its place and is stored, before it is applied to sessions."""
    find_recipients = fanout_stage.list_recipients

    async def end_and_find_recipients(*args: Any) -> Any:
        monkeypatch.setattr(fanout_stage, "list_recipients", find_recipients)
        await end()
        return await find_recipients(*args)

    monkeypatch.setattr(fanout_stage, "list_recipients", end_and_find_recipients)


SESSIONS = "query ($id: ID!) { session(conversationId: $id) { status unreadCount } attention { threads } }"


@pytest.mark.parametrize("how", ["follow", "reply", "mention"])
async def test_a_thread_followed_while_its_channel_becomes_hidden_is_hidden_too(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    sample = await create_sample_channels(api)
    parent = (await api.send(sample.member, sample.general, "parent"))["message"]
    thread = (await api.send(sample.member, parent["id"], "reply"))["message"]["conversationId"]
    user = sample.other
    await api.total_unread(user)

    async def end() -> None:
        await overwrite(other_api, sample.owner, channel=sample.general, user=user, deny=["VIEW_CHANNEL"])

    end_before_fan_out(monkeypatch, end)
    if how == "follow":
        await api.run(user, FOLLOW, id=thread)
    else:
        await api.send(
            user if how == "reply" else sample.member, thread, "at once", mentions=[user][: how == "mention"]
        )
    await api.wait_until_idle()
    seen = await api.data(user, SESSIONS, id=thread)
    assert seen["session"]["status"] == "INVALID" and seen["attention"]["threads"] == 0
    # The sample itself has differences: it was not made through the API.
    assert await _differences(api, user) == []


@pytest.mark.parametrize("follows_meanwhile", [False, True], ids=["follows before", "follows at once"])
async def test_history_that_begins_at_the_join_hides_threads_from_before(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, follows_meanwhile: bool
) -> None:
    anna, ben, cleo, dave = await api.create_users("anna", "ben", "cleo", "dave")
    group = await api.create_group(anna, ben, dave, historyVisibility="FULL")
    parent = (await api.send(anna, group, "parent"))["message"]
    thread = (await api.send(ben, parent["id"], "reply"))["message"]["conversationId"]
    await api.invite(anna, group, cleo)
    await api.total_unread(cleo)
    if follows_meanwhile:
        end_before_fan_out(monkeypatch, lambda: other_api.update_group(anna, group, historyVisibility="SINCE_JOIN"))
        await api.run(cleo, FOLLOW, id=thread)
    else:
        await api.data(cleo, FOLLOW, id=thread)
        await api.update_group(anna, group, historyVisibility="SINCE_JOIN")
    await api.send(ben, thread, "not for cleo")
    await _expect_session(api, cleo, thread, "INVALID", 0)
    await _expect_session(api, ben, thread, "ACTIVE", 0)
    assert await _differences(api, cleo, ben) == []
    await api.update_group(anna, group, historyVisibility="FULL")
    await _expect_session(api, cleo, thread, "ACTIVE", 1)
    assert await _differences(api, cleo) == []


async def _expect_session(api: Api, user: str, thread: str, status: str, unread: int) -> None:
    await api.wait_until_idle()
    seen = await api.data(user, SESSIONS, id=thread)
    assert (seen["session"], seen["attention"]) == ({"status": status, "unreadCount": unread}, {"threads": unread})


async def _differences(api: Api, *users: str) -> list[Difference]:
    return [each for each in await find_differences(api.services.app.store) if each.object_id in users]
