"""Changes of rights are completed: by those that made them, together with others, or by another server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.mongo.client import Mongo
from store.store import Store
from store.workspaces.changing import policy_changes as changes_module
from store.workspaces.policy import PendingChange, Policy
from tests.store.policy_changes import archive, fail, head_versions, pending_changes, rename_workspace, strip_everyone
from tests.store.workspaces import CHANNEL_IDS, GENERAL, W
from tests.waiting import TIMEOUT_SECONDS


class Died(BaseException):
    """The server died."""


async def archive_without_fence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Archive #general on a server that cannot raise the versions of heads: the change stays incomplete."""
    with monkeypatch.context() as patch:
        patch.setattr(store.policy_changes.completions._fence, "raise_versions", fail)
        with pytest.raises(Unreachable):
            await store.policy_changes.change(W, archive)


STEPS = ("before the fence", "before it is published", "before it is marked as complete")


@pytest.mark.parametrize("step", STEPS)
async def test_another_server_completes_the_change_of_one_that_died(
    store: Store, told: list[tuple[int, PendingChange]], step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = store.policy_changes

    async def die(*_args: Any, **_options: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        match STEPS.index(step):
            case 0:
                patch.setattr(changes.completions._fence, "raise_versions", die)
            case 1:
                patch.setattr(changes.completions, "announce", die)
            case 2:
                patch.setattr(Mongo, "update_one", die)
        with pytest.raises(Died):
            await changes.change(W, strip_everyone)
    assert await pending_changes(store) is not None
    assert await changes.complete_abandoned() == 0
    monkeypatch.setattr(changes_module, "TAKEOVER_MS", -1)
    told.clear()
    assert await changes.complete_abandoned() == 1
    assert [version for version, _ in told] == [2]
    assert await head_versions(store, *CHANNEL_IDS) == [2] and await pending_changes(store) is None
    assert await changes.complete_abandoned() == 0


async def test_a_call_that_changes_nothing_completes_an_incomplete_change(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated request must not be answered before the fence."""
    await archive_without_fence(store, monkeypatch)
    await store.policy_changes.change(W, archive)
    assert await head_versions(store, GENERAL) == [2] and await pending_changes(store) is None
    assert [(version, change.heads) for version, change in told] == [(2, {GENERAL})]


async def test_a_server_completes_only_its_own_changes(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch
) -> None:
    await archive_without_fence(store, monkeypatch)
    await store.policy_changes.change(W, rename_workspace)
    assert [(version, change.heads, change.is_changed) for version, change in told] == [(3, frozenset(), True)]
    (incomplete,) = await pending_changes(store)
    assert incomplete["h"] == [GENERAL]
    await store.policy_changes.complete_incomplete()
    assert await head_versions(store, GENERAL) == [3] and await pending_changes(store) is None


async def test_many_incomplete_changes_become_one(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store.policy_changes.completions._fence, "raise_versions", fail)
        for decide in (archive, *[rename_workspace] * 20):
            with pytest.raises(Unreachable):
                await store.policy_changes.change(W, decide)
    assert len(await pending_changes(store)) == 1
    await store.policy_changes.complete_incomplete()
    assert [(version, change.heads, change.is_changed) for version, change in told] == [(22, {GENERAL}, True)]
    assert await pending_changes(store) is None


async def test_changes_that_wait_for_a_completion_are_completed_together(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch
) -> None:
    announce, begun, may_end = store.policy_changes.completions.announce, list[int](), asyncio.Event()

    async def wait_and_announce(policy: Policy, change: PendingChange) -> None:
        begun.append(policy.version)
        await may_end.wait()
        await announce(policy, change)

    monkeypatch.setattr(store.policy_changes.completions, "announce", wait_and_announce)

    async def stored(version: int) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while (policy := await store.policies.read(W)) is None or policy.version < version:
                pass

    first = asyncio.create_task(store.policy_changes.change(W, archive))
    await stored(2)
    others = [asyncio.create_task(store.policy_changes.change(W, rename_workspace)) for _ in range(5)]
    await stored(7)
    assert begun == [2] and not first.done()
    may_end.set()
    await asyncio.gather(first, *others)
    assert begun == [2, 7] and [change.is_changed for _, change in told] == [False, True]
    assert await pending_changes(store) is None


async def test_changes_that_wait_for_a_completion_survive_its_cancellation(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch
) -> None:
    announce, begun = store.policy_changes.completions.announce, asyncio.Event()

    async def hang(_policy: Policy, _change: PendingChange) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(store.policy_changes.completions, "announce", hang)
    first = asyncio.create_task(store.policy_changes.change(W, archive))
    await begun.wait()
    second = asyncio.create_task(store.policy_changes.change(W, rename_workspace))
    monkeypatch.setattr(store.policy_changes.completions, "announce", announce)
    first.cancel()
    await second
    assert [(version, change.heads) for version, change in told] == [(3, {GENERAL})]
    assert await pending_changes(store) is None


async def test_a_process_completes_its_own_changes_when_redis_answers_again(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store.policy_changes.completions._fence, "raise_versions", fail)
        with pytest.raises(Unreachable):
            await store.policy_changes.change(W, strip_everyone)
        with pytest.raises(Unreachable):
            await store.policy_changes.complete_incomplete()
    await store.policy_changes.complete_incomplete()
    assert [version for version, _ in told] == [2] and await pending_changes(store) is None
    await store.policy_changes.complete_incomplete()
    assert len(told) == 1


async def test_a_change_without_redis_is_answered_and_completed_later(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise Unreachable("Redis is unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(store.cache, "require_shared", fail)
        after = await store.policy_changes.change(W, strip_everyone)
        assert after is not None and after.version == 2 and told == []
    assert await pending_changes(store) is not None
    await store.policy_changes.complete_incomplete()
    assert [version for version, _ in told] == [2] and await pending_changes(store) is None
