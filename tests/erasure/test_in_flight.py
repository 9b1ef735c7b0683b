"""Operations that began before the user was refused, and end in the middle of the erasure."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.erasure import erasure_job
from store.base.ids import UserId
from store.erasure.redis_clearing import RedisClearing
from tests.api.client import SEND, Api
from tests.api.workspaces.calls import expect_right_counts, own_workspace
from tests.checking import find_differences
from tests.erasure.sample import make_sample
from tests.erasure.test_erasing import erase, pseudonym_of
from tests.erasure.traces import list_traces

PSEUDONYM = UserId("erased-0123456789abcdef")


async def test_rows_that_were_renamed_before_are_renamed_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = await make_sample(api)
    await api.mark_read(sample.user, sample.group)
    monkeypatch.setattr("resolvers.erasure.erasing.new_pseudonym", lambda: PSEUDONYM)
    for name in ("members", "receipts"):
        rows = [row for row in api.database[name].find() if row["_id"].startswith(f"{sample.group} {sample.user}")]
        renamed = [row | {"_id": row["_id"].replace(sample.user, PSEUDONYM)} for row in rows]
        assert renamed or name == "receipts"
        if renamed:
            api.database[name].insert_many(renamed)
    assert (await erase(api, sample.user))["state"] == "DONE"
    assert list_traces(api, sample.user) == []


async def test_users_who_join_after_they_have_left_everything_leave_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = await make_sample(api)
    depart, calls = erasure_job._Erasure._depart, 0

    async def depart_later(erasure: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            await depart(erasure)

    monkeypatch.setattr(erasure_job._Erasure, "_depart", depart_later)
    await erase(api, sample.user)
    pseudonym = await pseudonym_of(api, sample)
    group = await api.group(sample.bob, sample.group)
    assert group is not None and group["owner"]["id"] in (sample.bob, sample.carol) and group["memberCount"] == 2
    rows = [row for row in api.database["members"].find() if row["_id"] == f"{sample.group} {pseudonym}"]
    assert [row["i"][-1][1] > 0 for row in rows] == [True]
    workspace = await own_workspace(api, sample.carol, sample.own_workspace)
    assert (workspace["owner"]["id"], workspace["memberCount"]) == (sample.carol, 1)
    expect_right_counts(api, sample.made.id)
    assert list_traces(api, sample.user) == []
    assert await find_differences(api.services.app.store) == []


async def test_others_can_not_write_in_threads_of_a_moved_conversation(api: Api) -> None:
    sample = await make_sample(api)
    parent = next(m for m in await api.history(sample.bob, sample.private) if m["content"] == "back")
    await erase(api, sample.user)
    refusal = await api.expect_refusal(sample.bob, SEND, input={"threadOf": parent["id"], "content": "hello?"})
    assert refusal.code == "NOT_FOUND"


async def test_work_that_was_awaited_is_looked_for_in_a_further_pass(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    group = await api.create_group(alice, bob, (await api.create_users("carol"))[0])
    clear, calls = RedisClearing.clear, 0

    async def clear_later(clearing: RedisClearing, *arguments: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 4:
            # The rows that the last passes waited for are written after this pass has read the collection.
            api.database["receipts"].insert_one({"_id": f"{group} {alice} R00000001"})
        return await clear(clearing, *arguments) + (1 if calls < 4 else 0)

    monkeypatch.setattr(RedisClearing, "clear", clear_later)
    await erase(api, alice)
    assert calls > 4
    assert list_traces(api, alice) == []
