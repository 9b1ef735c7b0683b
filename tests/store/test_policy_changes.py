"""Changes of rights: one after the other, fenced in Redis before they are answered, and completed whatever dies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from pymongo import InsertOne

from store.base.errors import Unreachable
from store.base.workspace_ids import channel_id, role_id, workspace_id
from store.mongo.collections import CLAIMS, WORKSPACE_MEMBERS, WORKSPACES
from store.redis.cache import Call
from store.store import Store
from store.workspaces.changing.proposed_change import MemberChange, ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import MemberFacts, PendingChange, Policy, Role
from tests.store.policy_changes import (
    cache_head,
    fail,
    head_versions,
    pending_changes,
    rename_workspace,
    strip_everyone,
    with_role,
)
from tests.store.workspaces import (
    ADMIN,
    ALICE,
    AT,
    BOB,
    CAROL,
    CHANNEL_IDS,
    EVERYONE,
    GENERAL,
    GUIDE,
    OLD,
    STAFF,
    W,
    make_channel,
    sample_policy,
)

NEW = channel_id(W, 50)


def _propose(**fields: Any) -> Callable[[Policy], Awaitable[ProposedPolicyChange]]:
    async def decide(policy: Policy) -> ProposedPolicyChange:
        return ProposedPolicyChange(replace(policy, **fields))

    return decide


async def test_a_change_is_stored_fenced_and_published_before_it_is_answered(
    store: Store, told: list[tuple[int, PendingChange]]
) -> None:
    after = await store.policy_changes.change(W, strip_everyone)
    assert after is not None and after.version == 2
    assert [(version, change.heads, change.is_changed, change.changes_rights) for version, change in told] == [
        (2, set(CHANNEL_IDS), True, True)
    ]
    assert await head_versions(store, *CHANNEL_IDS) == [2]
    assert await pending_changes(store) is None
    read = await store.policies.read(W)
    assert read is not None and read == replace(after, pending=())
    assert store.policies.known(W) == after


async def test_only_the_channels_concerned_are_fenced(store: Store, told: list[tuple[int, PendingChange]]) -> None:
    async def archive(policy: Policy) -> ProposedPolicyChange:
        channels = dict(policy.channels) | {GENERAL: replace(policy.channels[GENERAL], is_archived=True)}
        return ProposedPolicyChange(replace(policy, channels=channels))

    await store.policy_changes.change(W, archive)
    assert await head_versions(store, GENERAL) == [2] and await head_versions(store, STAFF, OLD) == [1]
    ((_, change),) = told
    assert (change.heads, change.channels, change.changes_rights) == ({GENERAL}, {GENERAL}, False)


async def test_channels_are_inserted_changed_and_deleted(store: Store, told: list[tuple[int, PendingChange]]) -> None:
    async def reorder(policy: Policy) -> ProposedPolicyChange:
        channels = dict(policy.channels)
        del channels[OLD]
        channels[NEW] = replace(make_channel(NEW, "new"), member_count=3)
        channels[GENERAL] = replace(channels[GENERAL], topic=None, name="lobby", position=4)
        return ProposedPolicyChange(replace(policy, channels=channels))

    after = await store.policy_changes.change(W, reorder)
    read = await store.policies.read(W)
    assert after is not None and read is not None and read.channels == after.channels
    ((_, change),) = told
    assert (change.heads, change.channels, change.changes_rights) == ({OLD, GENERAL}, {NEW, GENERAL}, True)


async def test_a_call_that_changes_nothing_stores_and_publishes_nothing(
    store: Store, told: list[tuple[int, PendingChange]]
) -> None:
    async def nothing(_policy: Policy) -> None:
        return None

    for decide in (nothing, _propose()):
        policy = await store.policy_changes.change(W, decide)
        assert policy is not None and policy.version == 1
    assert told == [] and await head_versions(store, *CHANNEL_IDS) == [1]
    assert await store.policy_changes.change(workspace_id(99), nothing) is None


async def test_what_a_decision_raises_changes_nothing(store: Store, told: list[tuple[int, PendingChange]]) -> None:
    async def refuse(_policy: Policy) -> ProposedPolicyChange:
        raise ValueError

    before = await store.policies.read(W)
    with pytest.raises(ValueError):
        await store.policy_changes.change(W, refuse)
    assert await store.policies.read(W) == before and told == []


async def test_changes_of_members_count_roles_and_make_their_facts_outdated(
    store: Store, told: list[tuple[int, PendingChange]]
) -> None:
    async def change(policy: Policy) -> ProposedPolicyChange:
        facts = await store.policies.find_members(W, [BOB, CAROL], policy.version)
        changed = replace(facts[CAROL], roles=frozenset({GUIDE, ADMIN}), timed_out_until_ms=AT)
        return ProposedPolicyChange(
            policy, members=[MemberChange(facts[BOB], None), MemberChange(facts[CAROL], changed, {"sn": "caro"})]
        )

    after = await store.policy_changes.change(W, change)
    assert after is not None
    assert [after.roles[id].member_count for id in (EVERYONE, GUIDE, ADMIN)] == [0, 1, 1]
    found = await store.policies.find_members(W, [ALICE, BOB, CAROL])
    assert set(found) == {ALICE, CAROL}
    assert (found[CAROL].roles, found[CAROL].timed_out_until_ms) == ({GUIDE, ADMIN}, AT)
    row = await store.mongo.find_one(WORKSPACES, {"_id": W})
    assert row is not None and row["mc"] == 2
    ((_, published),) = told
    assert (published.heads, published.members, published.changes_rights) == (set(CHANNEL_IDS), {BOB, CAROL}, False)


async def test_a_nickname_is_published_without_a_new_version(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.policy_changes.completions._fence, "raise_versions", fail)

    async def rename(policy: Policy) -> ProposedPolicyChange:
        facts = (await store.policies.find_members(W, [BOB], policy.version))[BOB]
        return ProposedPolicyChange(policy, members=[MemberChange(facts, replace(facts, nickname="Bobby"))])

    after = await store.policy_changes.change(W, rename)
    assert after is not None and after.version == 1
    facts = await store.policies.find_member(W, BOB)
    assert facts is not None and (facts.nickname, facts.version) == ("Bobby", 1)
    ((version, change),) = told
    assert (version, change.heads, change.members, change.renamed) == (1, frozenset(), frozenset(), {BOB})
    assert await pending_changes(store) is None


async def test_a_nickname_is_answered_before_it_is_published(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def rename(policy: Policy) -> ProposedPolicyChange:
        facts = (await store.policies.find_members(W, [BOB], policy.version))[BOB]
        return ProposedPolicyChange(policy, members=[MemberChange(facts, replace(facts, nickname="Bobby"))])

    with monkeypatch.context() as patch:
        patch.setattr(store.policy_changes.completions, "announce", fail)
        assert await store.policy_changes.change(W, rename) is not None
    assert await pending_changes(store) is not None and told == []
    await store.policy_changes.complete_incomplete()
    assert await pending_changes(store) is None and [change.renamed for _, change in told] == [{BOB}]


async def test_a_change_of_roles_keeps_a_nickname_that_another_server_has_changed(
    store: Store, told: list[tuple[int, PendingChange]]
) -> None:
    (facts,) = (await store.policies.find_members(W, [BOB])).values()
    await store.mongo.update_one(WORKSPACE_MEMBERS, {"_id": f"{W} {BOB}"}, {"$set": {"nn": "Bobby"}})

    async def strip(policy: Policy) -> ProposedPolicyChange:
        return ProposedPolicyChange(policy, members=[MemberChange(facts, replace(facts, roles=frozenset()))])

    await store.policy_changes.change(W, strip)
    found = await store.policies.find_member(W, BOB)
    assert found is not None and (found.nickname, found.roles) == ("Bobby", frozenset())


async def test_a_deleted_channel_is_fenced_whatever_else_is_pending(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if one completion does both, or many changes became one."""

    async def delete(policy: Policy) -> ProposedPolicyChange:
        return ProposedPolicyChange(replace(policy, channels={STAFF: policy.channels[STAFF]}))

    with monkeypatch.context() as patch:
        patch.setattr(store.policy_changes.completions._fence, "raise_versions", fail)
        for decide in (strip_everyone, delete, *[rename_workspace] * 25):
            with pytest.raises(Unreachable):
                await store.policy_changes.change(W, decide)
    await store.policy_changes.complete_incomplete()
    assert await head_versions(store, *CHANNEL_IDS) == [28]


async def test_the_end_of_a_membership_of_a_channel_fences_that_channel(
    store: Store, told: list[tuple[int, PendingChange]]
) -> None:
    async def remove(policy: Policy) -> ProposedPolicyChange:
        row = {"_id": "anything"}
        return ProposedPolicyChange(
            policy, channel_members=frozenset({(STAFF, BOB)}), writes=[(CLAIMS, [InsertOne(row)])]
        )

    after = await store.policy_changes.change(W, remove)
    assert after is not None
    assert not after.accepts_membership(STAFF, BOB, 1) and after.accepts_membership(STAFF, CAROL, 1)
    assert await head_versions(store, STAFF) == [2] and await head_versions(store, GENERAL, OLD) == [1]
    assert await store.mongo.find_one(CLAIMS, {"_id": "anything"})


async def test_a_policy_names_the_newest_changes_of_members(store: Store) -> None:
    users = [f"u{number:03}" for number in range(250)]
    policy = sample_policy()
    for user in users[:110]:
        facts = MemberFacts(ALICE.__class__(user), 1)
        proposed = ProposedPolicyChange(policy, members=[MemberChange(facts, None)])  # type: ignore[arg-type]
        policy = proposed.result(policy, "x", AT)
    assert len(policy.member_changes) == 100 and policy.members_since == 11
    many = [MemberChange(MemberFacts(user, 1), None) for user in users]  # type: ignore[arg-type]
    policy = ProposedPolicyChange(policy, members=many).result(policy, "x", AT)
    assert policy.member_changes == {} and policy.members_since == policy.version


async def test_concurrent_changes_are_made_one_after_the_other(
    store: Store, told: list[tuple[int, PendingChange]]
) -> None:
    async def add_role(policy: Policy) -> ProposedPolicyChange:
        role = Role(role_id(W, 100 + policy.version), "new", len(policy.roles), Permission.SPEAK)
        return ProposedPolicyChange(replace(policy, roles=with_role(policy, role)))

    after = await asyncio.gather(*(store.policy_changes.change(W, add_role) for _ in range(25)))
    policy = await store.policies.read(W)
    assert policy is not None and policy.version == 26 and len(policy.roles) == 3 + 25
    assert sorted(p.version for p in after if p is not None) == list(range(2, 27))
    assert policy.pending == ()


async def test_a_deleted_workspace_is_fenced_and_gone(store: Store, told: list[tuple[int, PendingChange]]) -> None:
    async def delete(policy: Policy) -> ProposedPolicyChange:
        return ProposedPolicyChange(policy, deletes=True)

    after = await store.policy_changes.change(W, delete)
    assert after is not None and after.is_deleted
    assert await head_versions(store, *CHANNEL_IDS) == [2] and await pending_changes(store) is None
    assert await store.policies.find(W) is None and store.policies.known(W) is None
    assert await store.policy_changes.change(W, delete) is None
    assert [change.heads for _, change in told] == [set(CHANNEL_IDS)]


async def test_a_head_that_is_being_loaded_is_loaded_again(store: Store, told: list[tuple[int, PendingChange]]) -> None:
    head, _, _, loading = store.keys.conversation(GENERAL)
    await store.cache.run([Call("DEL", (head,)), Call("SET", (loading,), ("token",))])
    await store.policy_changes.change(W, strip_everyone)
    assert await store.cache.run([Call("EXISTS", (head,)), Call("EXISTS", (loading,))]) == [0, 0]


async def test_versions_of_heads_never_go_back_and_many_take_one_round_trip(
    store: Store, told: list[tuple[int, PendingChange]]
) -> None:
    many = [channel_id(W, number) for number in range(1_000, 2_000)]
    for channel in many[::100]:
        await cache_head(store, channel, 5)
    trips = store.cache.trips
    await store.policy_changes.completions._fence.raise_versions(W, 6, many)
    assert store.cache.trips - trips == 1
    assert await head_versions(store, *many[::100]) == [6]
    await store.policy_changes.completions._fence.raise_versions(W, 4, many)
    assert await head_versions(store, *many[::100]) == [6]
