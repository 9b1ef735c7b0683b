"""Searches that are made to fail, to take long, or to learn about messages that the caller can't read."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from resolvers.base.cursors import encode_page
from resolvers.search import message_search, search_run
from resolvers.search.search_cursors import SearchCursors
from resolvers.search.search_filter import SearchFilter
from store.base.ids import MessageId, UserId
from store.text.message_query import MessageQuery
from store.workspaces.permissions import Permission
from tests.api.channels.follow_calls import interrupt
from tests.api.channels.session_calls import FOLLOW
from tests.api.client import Api
from tests.api.conftest import OpenApi
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.api.search.calls import found, search, wait_until_indexed


@pytest.mark.parametrize("number", [0, 1 << 62, (1 << 63) - 1])
async def test_a_forged_cursor_has_an_answer(api: Api, number: int) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "tea")
    cursors = SearchCursors(UserId(alice), "tea", SearchFilter().checked())
    checksum = cursors.position(MessageId(number), 0)[-1]
    page = await search(api, alice, "tea", cursor=encode_page("q", f"m_{number}", 0, checksum))
    assert [edge["node"]["content"] for edge in page["edges"]] == (["tea"] if number else [])


async def test_the_time_limit_counts_while_messages_are_compared(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for number in range(20):
        await api.send(alice, bob, f"tea {number}")
    compare, delay_seconds = MessageQuery.find_in, 0.0

    def compare_slowly(self: MessageQuery, text: str) -> Any:
        nonlocal delay_seconds
        delay_seconds += message_search.SEARCH_SECONDS / 6
        return compare(self, text)

    monkeypatch.setattr(MessageQuery, "find_in", compare_slowly)
    monkeypatch.setattr(search_run, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + delay_seconds))
    page = await search(api, alice, "tea")
    assert 0 < len(page["edges"]) < 20 and not page["complete"] and page["pageInfo"]["hasNextPage"]
    monkeypatch.undo()
    rest = await search(api, alice, "tea", cursor=page["pageInfo"]["endCursor"])
    assert len(page["edges"]) + len(rest["edges"]) == 20 and rest["complete"]


async def test_the_index_is_not_asked_about_a_named_channel_without_read_history(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    general, user = workspace.general, workspace.member
    await api.send(workspace.other, general, "tea")
    await workspace.overwrite(general, user, Permission.READ_HISTORY)

    async def fail() -> None:
        raise AssertionError("the index was asked")

    with monkeypatch.context() as patch:
        interrupt(patch, api.services.app.store.search_index, "propose", fail, after=False)
        assert await found(api, user, "tea", conversationIds=[general]) == []


@pytest.fixture
async def small(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("attacks", work_per_second=1, work_budget=50_000) as api:
        yield api


async def test_the_work_of_a_search_does_not_say_how_many_hidden_messages_match(small: Api) -> None:
    workspace = await create_sample_channels(small)
    general, user = workspace.general, workspace.member
    await small.data(user, FOLLOW, id=general)
    for _ in range(12):
        await small.send(workspace.other, general, "tea")
    await wait_until_indexed(small)
    await workspace.overwrite(general, user, Permission.READ_HISTORY)
    work, spent = small.services.app.work, []
    for word in ('"tea"', '"walnut"'):
        work._full_at.clear()
        assert await found(small, user, word) == []
        spent.append(50_000 - work.remaining(UserId(user)))
    assert abs(spent[0] - spent[1]) <= 2


async def test_the_position_of_the_index_does_not_say_when_others_wrote(api: Api) -> None:
    alice, bob, stranger = await api.create_users("alice", "bob", "stranger")
    for number in range(5):
        await api.send(alice, bob, f"tea {number}")
        began = api.services.app.store.clock.now_ms()
        page = await search(api, stranger, "tea")
        assert page["complete"] and page["edges"] == []
        assert page["indexedUpTo"] >= began
