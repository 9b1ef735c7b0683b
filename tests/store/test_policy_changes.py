"""Changes of rights: one after the other, fenced in Redis before they are answered, and completed whatever dies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from pymongo import InsertOne

from store.base.errors import Unreachable
from store.base.ids import ConversationId
from store.base.workspace_ids import channel_id, role_id, workspace_id
from store.conversations.conversation_fields import ConversationField, HeadField
from store.mongo.client import Mongo
from store.mongo.collections import CLAIMS, WORKSPACES
from store.redis.cache import Call
from store.store import Store
from store.workspaces.changing import policy_changes as changes_module
from store.workspaces.changing.proposed_change import MemberChange, ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import MemberFacts, PendingChange, Policy, Role
from tests.store.workspaces import (
    ADMIN,
    ALICE,
    AT,
    BOB,
    CAROL,
    EVERYONE,
    GENERAL,
    GUIDE,
    OLD,
    STAFF,
    W,
    insert_workspace,
    make_channel,
    sample_policy,
)

MEMBERS = (
    MemberFacts(ALICE, 1),
    MemberFacts(BOB, 1, frozenset({ADMIN})),
    MemberFacts(CAROL, 1, frozenset({GUIDE, role_id(W, 99)})),
)
NEW = channel_id(W, 50)
CHANNELS = (GENERAL, STAFF, OLD)


@pytest.fixture
async def told(store: Store) -> list[tuple[int, PendingChange]]:
    """Return the list of what is published: policy version and change."""
    policy = sample_policy()
    counted = {id: replace(role, member_count=int(id in (ADMIN, GUIDE))) for id, role in policy.roles.items()}
    await insert_workspace(store, replace(policy, roles=counted), *MEMBERS)
    for channel in CHANNELS:
        await _cache_head(store, channel)
    published = list[tuple[int, PendingChange]]()

    async def announce(policy: Policy, change: PendingChange) -> None:
        # A later change may have been made meanwhile.
        for version in await _versions(store, *(CHANNELS if change.heads is None else change.heads)):
            assert version >= policy.version
        version = await store.policies.current_version(W)
        assert version is not None and version >= policy.version
        published.append((policy.version, change))

    store.policy_changes.announce = announce
    return published


async def _cache_head(store: Store, channel: ConversationId, version: int = 1) -> None:
    fields = (ConversationField.SEQ, 0, ConversationField.KIND, "C", HeadField.POLICY_VERSION, version)
    await store.cache.one(Call("HSET", (store.keys.head(channel),), fields))


async def _versions(store: Store, *channels: ConversationId) -> list[int]:
    """Return the different versions of cached heads."""
    calls = [Call("HGET", (store.keys.head(channel),), (HeadField.POLICY_VERSION,)) for channel in channels]
    return sorted({int(version) for version in await store.cache.run(calls) if version is not None})


async def _pending(store: Store) -> Any:
    row = await store.mongo.find_one(WORKSPACES, {"_id": W})
    assert row is not None
    return row.get("pn")


def _propose(**fields: Any) -> Callable[[Policy], Awaitable[ProposedPolicyChange]]:
    async def decide(policy: Policy) -> ProposedPolicyChange:
        return ProposedPolicyChange(replace(policy, **fields))

    return decide


def _with_role(policy: Policy, role: Role) -> dict[Any, Role]:
    return dict(policy.roles) | {role.id: role}


async def _strip_everyone(policy: Policy) -> ProposedPolicyChange:
    """Take a permission from the role of everyone, a different one at each version."""
    permissions = policy.everyone.permissions & ~Permission(1 << policy.version)
    return ProposedPolicyChange(
        replace(policy, roles=_with_role(policy, replace(policy.everyone, permissions=permissions)))
    )


async def test_a_change_is_stored_fenced_and_published_before_it_is_answered(
    store: Store, told: list[tuple[int, PendingChange]]
) -> None:
    after = await store.policy_changes.change(W, _strip_everyone)
    assert after is not None and after.version == 2
    assert [(version, change.heads, change.is_changed, change.changes_rights) for version, change in told] == [
        (2, None, True, True)
    ]
    assert await _versions(store, *CHANNELS) == [2]
    assert await _pending(store) is None
    read = await store.policies.read(W)
    assert read is not None and read == replace(after, pending=None)
    assert store.policies.known(W) == after


async def test_only_the_channels_concerned_are_fenced(store: Store, told: list[tuple[int, PendingChange]]) -> None:
    async def archive(policy: Policy) -> ProposedPolicyChange:
        channels = dict(policy.channels) | {GENERAL: replace(policy.channels[GENERAL], is_archived=True)}
        return ProposedPolicyChange(replace(policy, channels=channels))

    await store.policy_changes.change(W, archive)
    assert await _versions(store, GENERAL) == [2] and await _versions(store, STAFF, OLD) == [1]
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
    # Rights in #general are the same as before.
    assert (change.heads, change.channels, change.changes_rights) == ({OLD}, {NEW, GENERAL}, True)


async def test_a_call_that_changes_nothing_stores_and_publishes_nothing(
    store: Store, told: list[tuple[int, PendingChange]]
) -> None:
    async def nothing(_policy: Policy) -> None:
        return None

    for decide in (nothing, _propose()):
        policy = await store.policy_changes.change(W, decide)
        assert policy is not None and policy.version == 1
    assert told == [] and await _versions(store, *CHANNELS) == [1]
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
    assert (published.heads, published.members, published.changes_rights) == (None, {BOB, CAROL}, False)


async def test_a_nickname_is_published_and_fences_nothing(store: Store, told: list[tuple[int, PendingChange]]) -> None:
    async def rename(policy: Policy) -> ProposedPolicyChange:
        facts = (await store.policies.find_members(W, [BOB], policy.version))[BOB]
        return ProposedPolicyChange(policy, members=[MemberChange(facts, replace(facts, nickname="Bobby"))])

    await store.policy_changes.change(W, rename)
    facts = await store.policies.find_member(W, BOB)
    assert facts is not None and (facts.nickname, facts.version) == ("Bobby", 2)
    ((_, change),) = told
    assert (change.heads, change.members) == (frozenset(), {BOB})


async def test_the_end_of_a_membership_of_a_channel_fences_that_channel(
    store: Store, told: list[tuple[int, PendingChange]]
) -> None:
    async def remove(policy: Policy) -> ProposedPolicyChange:
        row = {"_id": "anything"}
        return ProposedPolicyChange(
            policy, channel_members=frozenset({(STAFF, BOB)}), writes=[(CLAIMS, [InsertOne(row)])]
        )

    after = await store.policy_changes.change(W, remove)
    assert after is not None and not after.accepts(MemberFacts(BOB, 1)) and after.accepts(MemberFacts(CAROL, 1))
    assert await _versions(store, STAFF) == [2] and await _versions(store, GENERAL, OLD) == [1]
    assert await store.mongo.find_one(CLAIMS, {"_id": "anything"})


async def test_a_policy_names_the_newest_changes_of_members(store: Store) -> None:
    users = [f"u{number:03}" for number in range(250)]
    policy = sample_policy()
    for user in users[:110]:
        facts = MemberFacts(ALICE.__class__(user), 1)
        proposed = ProposedPolicyChange(policy, members=[MemberChange(facts, None)])  # type: ignore[arg-type]
        policy = proposed.result(policy, AT)
    assert len(policy.member_changes) == 100 and policy.members_since == 11
    many = [MemberChange(MemberFacts(user, 1), None) for user in users]  # type: ignore[arg-type]
    policy = ProposedPolicyChange(policy, members=many).result(policy, AT)
    assert policy.member_changes == {} and policy.members_since == policy.version


async def test_concurrent_changes_are_made_one_after_the_other(
    store: Store, told: list[tuple[int, PendingChange]]
) -> None:
    async def add_role(policy: Policy) -> ProposedPolicyChange:
        role = Role(role_id(W, 100 + policy.version), "new", len(policy.roles), Permission.SPEAK)
        return ProposedPolicyChange(replace(policy, roles=_with_role(policy, role)))

    after = await asyncio.gather(*(store.policy_changes.change(W, add_role) for _ in range(8)))
    policy = await store.policies.read(W)
    assert policy is not None and policy.version == 9 and len(policy.roles) == 3 + 8
    assert sorted(p.version for p in after if p is not None) == list(range(2, 10))
    assert policy.pending is None


class Died(BaseException):
    """The server died."""


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
                patch.setattr(changes._fence, "raise_versions", die)
            case 1:
                patch.setattr(changes, "announce", die)
            case 2:
                patch.setattr(Mongo, "update_one", die)
        with pytest.raises(Died):
            await changes.change(W, _strip_everyone)
    assert await _pending(store) is not None
    assert await changes.complete_abandoned() == 0
    monkeypatch.setattr(changes_module, "TAKEOVER_MS", -1)
    told.clear()
    assert await changes.complete_abandoned() == 1
    assert [version for version, _ in told] == [2]
    assert await _versions(store, *CHANNELS) == [2] and await _pending(store) is None
    assert await changes.complete_abandoned() == 0


@pytest.mark.parametrize("version", [2, 3])
async def test_the_next_change_completes_an_incomplete_one(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Also a call that finds nothing to change: a repeated request must not be answered before the fence."""

    async def fail(*_args: Any, **_options: Any) -> None:
        raise Unreachable("Redis does not answer")

    async def archive(policy: Policy) -> ProposedPolicyChange:
        channels = dict(policy.channels) | {GENERAL: replace(policy.channels[GENERAL], is_archived=True)}
        return ProposedPolicyChange(replace(policy, channels=channels))

    async def rename(policy: Policy) -> ProposedPolicyChange:
        return ProposedPolicyChange(policy, workspace={"$set": {"name": "climbers"}})

    with monkeypatch.context() as patch:
        patch.setattr(store.policy_changes._fence, "raise_versions", fail)
        with pytest.raises(Unreachable):
            await store.policy_changes.change(W, archive)
    await store.policy_changes.change(W, archive if version == 2 else rename)
    assert await _versions(store, GENERAL) == [version] and await _pending(store) is None
    ((published, change),) = told
    assert (published, change.heads, change.is_changed) == (version, {GENERAL}, version == 3)


async def test_a_process_completes_its_own_changes_when_redis_answers_again(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_args: Any, **_options: Any) -> None:
        raise Unreachable("Redis does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(store.policy_changes._fence, "raise_versions", fail)
        with pytest.raises(Unreachable):
            await store.policy_changes.change(W, _strip_everyone)
        with pytest.raises(Unreachable):
            await store.policy_changes.complete_incomplete()
    await store.policy_changes.complete_incomplete()
    assert [version for version, _ in told] == [2] and await _pending(store) is None
    await store.policy_changes.complete_incomplete()
    assert len(told) == 1


async def test_a_change_without_redis_is_answered_and_completed_later(
    store: Store, told: list[tuple[int, PendingChange]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise Unreachable("Redis is unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(store.cache, "require_shared", fail)
        after = await store.policy_changes.change(W, _strip_everyone)
        assert after is not None and after.version == 2 and told == []
    assert await _pending(store) is not None
    await store.policy_changes.complete_incomplete()
    assert [version for version, _ in told] == [2] and await _pending(store) is None


async def test_a_deleted_workspace_is_fenced_and_gone(store: Store, told: list[tuple[int, PendingChange]]) -> None:
    async def delete(policy: Policy) -> ProposedPolicyChange:
        return ProposedPolicyChange(policy, deletes=True)

    after = await store.policy_changes.change(W, delete)
    assert after is not None and after.is_deleted
    assert await _versions(store, *CHANNELS) == [2] and await _pending(store) is None
    assert await store.policies.find(W) is None and store.policies.known(W) is None
    assert await store.policy_changes.change(W, delete) is None
    assert [change.heads for _, change in told] == [None]


async def test_a_head_that_is_being_loaded_is_loaded_again(store: Store, told: list[tuple[int, PendingChange]]) -> None:
    head, _, _, loading = store.keys.conversation(GENERAL)
    await store.cache.run([Call("DEL", (head,)), Call("SET", (loading,), ("token",))])
    await store.policy_changes.change(W, _strip_everyone)
    assert await store.cache.run([Call("EXISTS", (head,)), Call("EXISTS", (loading,))]) == [0, 0]


async def test_versions_of_heads_never_go_back_and_many_take_one_round_trip(
    store: Store, told: list[tuple[int, PendingChange]]
) -> None:
    many = [channel_id(W, number) for number in range(1_000, 2_000)]
    for channel in many[::100]:
        await _cache_head(store, channel, 5)
    trips = store.cache.trips
    await store.policy_changes._fence.raise_versions(W, 6, many)
    assert store.cache.trips - trips == 1
    assert await _versions(store, *many[::100]) == [6]
    await store.policy_changes._fence.raise_versions(W, 4, many)
    assert await _versions(store, *many[::100]) == [6]
