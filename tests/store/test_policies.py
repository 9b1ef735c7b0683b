"""Policies and facts about members in memory: read once, as of one version, and again when they are outdated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.workspace_ids import workspace_id
from store.mongo.client import Mongo
from store.mongo.collections import CHANNELS, WORKSPACE_MEMBERS, WORKSPACES, workspace_row_id
from store.redis.cache import Call
from store.store import Store
from store.workspaces import policies as policies_module
from store.workspaces.documents import pending_fields, policy_fields
from store.workspaces.permissions import Permission
from store.workspaces.policies import Policies
from store.workspaces.policy import MemberFacts, PendingChange, Policy
from tests.store.workspaces import (
    ADMIN,
    ALICE,
    BOB,
    CAROL,
    DAVE,
    GENERAL,
    GUIDE,
    STAFF,
    W,
    insert_workspace,
    sample_policy,
)

MEMBERS = (
    MemberFacts(ALICE, 1, joined_at_ms=5),
    MemberFacts(BOB, 1, frozenset({ADMIN}), "Bobby", 6, 77),
    MemberFacts(CAROL, 1, frozenset({GUIDE})),
)


@pytest.fixture
async def policies(store: Store) -> Policies:
    await insert_workspace(store, sample_policy(), *MEMBERS)
    return store.policies


async def _raise(store: Store, fields: dict[str, Any] | None = None) -> int:
    """Raise the policy version in MongoDB, as a change of rights on another server does."""
    row = await store.mongo.find_one_and_update(
        WORKSPACES, {"_id": W}, {"$inc": {"pv": 1}, "$set": fields or {"x": 1}}, after=True
    )
    assert row is not None
    return int(row["pv"])


async def test_documents_keep_everything_that_a_policy_and_facts_have(policies: Policies) -> None:
    assert await policies.find(W) == sample_policy()
    assert await policies.find_members(W, [ALICE, BOB, CAROL, DAVE]) == {facts.user: facts for facts in MEMBERS}
    assert await policies.find_member(W, DAVE) is None
    for number, pending in enumerate(
        ((PendingChange("a", 7),), (PendingChange("b", 8, *SOME), PendingChange("c", 9, is_changed=True)))
    ):
        changed = replace(
            sample_policy(),
            workspace=workspace_id(8 + number),
            pending=pending,
            members_since=3,
            member_changes={BOB: 4, ALICE: 5},
            channels={},
        )
        await insert_workspace_of(policies, changed)
        assert await policies.find(changed.workspace) == changed


SOME = (frozenset({GENERAL}), False, True, frozenset({STAFF}), frozenset({BOB}), frozenset({ALICE}))


async def insert_workspace_of(policies: Policies, policy: Policy) -> None:
    fields = policy_fields(policy) | {"pn": [pending_fields(change) for change in policy.pending]}
    await policies._mongo.insert_one(WORKSPACES, {"_id": policy.workspace} | fields)


async def test_what_is_known_is_read_once(store: Store, policies: Policies) -> None:
    assert policies.known(W) is None and policies.known_member(W, BOB) is None
    trips = store.mongo.trips
    assert len({id(policy) for policy in await asyncio.gather(*(policies.find(W) for _ in range(20)))}) == 1
    assert store.mongo.trips - trips == 2
    await policies.find_members(W, [ALICE, BOB])
    await policies.find_members(W, [ALICE, BOB], 1)
    assert store.mongo.trips - trips == 3
    assert policies.known(W) == sample_policy()
    assert policies.known_member(W, BOB) == MEMBERS[1] and policies.known_member(W, DAVE) is None


async def test_an_older_policy_is_read_again_and_only_changed_members_with_it(store: Store, policies: Policies) -> None:
    await policies.find_members(W, [ALICE, BOB, CAROL])
    version = await _raise(store, {"mch": [[BOB, 2]]})
    await store.mongo.update_one(WORKSPACE_MEMBERS, {"_id": workspace_row_id(W, BOB)}, {"$unset": {"r": ""}})
    assert (await policies.find_members(W, [BOB]))[BOB].roles == {ADMIN}
    trips = store.mongo.trips
    facts = await policies.find_members(W, [ALICE, BOB, CAROL], version)
    assert facts[BOB].roles == frozenset() and facts[BOB].version == version
    assert facts[CAROL] == MEMBERS[2]
    assert store.mongo.trips - trips == 3
    await _raise(store, {"mch": [], "ms": 3})
    await store.mongo.delete_one(WORKSPACE_MEMBERS, {"_id": workspace_row_id(W, CAROL)})
    assert set(await policies.find_members(W, [ALICE, BOB, CAROL], 3)) == {ALICE, BOB}
    assert policies.known_member(W, CAROL) is None


async def test_users_that_join_later_are_found(store: Store, policies: Policies) -> None:
    assert await policies.find_member(W, DAVE) is None
    await store.mongo.insert_one(WORKSPACE_MEMBERS, {"_id": workspace_row_id(W, DAVE), "j": 9, "sn": "dave"})
    facts = await policies.find_member(W, DAVE)
    assert facts is not None and facts.joined_at_ms == 9


async def test_a_policy_never_mixes_two_versions(
    store: Store, policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that is made between the reads of the workspace and of its channels is seen as a whole or not at all."""
    reading = store.mongo._database.__class__.__getitem__
    paused, go_on = asyncio.Event(), asyncio.Event()

    class Pausing:
        def __init__(self, collection: Any) -> None:
            self._collection = collection

        def find(self, *args: Any, **options: Any) -> Any:
            cursor = self._collection.find(*args, **options)
            to_list = cursor.to_list

            async def paused_list(size: Any) -> Any:
                rows = await to_list(size)
                paused.set()
                await go_on.wait()
                return rows

            cursor.to_list = paused_list
            return cursor

    def item(database: Any, name: str) -> Any:
        found = reading(database, name)
        return Pausing(found) if name == WORKSPACES and not paused.is_set() else found

    monkeypatch.setattr(store.mongo._database.__class__, "__getitem__", item)
    reader = asyncio.create_task(policies.find(W))
    await paused.wait()

    async def change(session: Any) -> None:
        await store.mongo.find_one_and_update(WORKSPACES, {"_id": W}, {"$set": {"pv": 2}}, session=session)
        await store.mongo.find_one_and_update(
            CHANNELS, {"_id": workspace_row_id(W, GENERAL)}, {"$set": {"name": "lobby"}}, session=session
        )

    await store.mongo.transaction(change)
    go_on.set()
    policy = await reader
    assert policy is not None and (policy.version, policy.channels[GENERAL].name) == (1, "general")
    policy = await policies.find(W, 2)
    assert policy is not None and (policy.version, policy.channels[GENERAL].name) == (2, "lobby")


async def test_a_deleted_workspace_is_forgotten(store: Store, policies: Policies) -> None:
    assert await policies.find(workspace_id(99)) is None
    await policies.find_members(W, [BOB])
    version = await _raise(store, {"del": 5})
    assert await policies.find(W, version) is None
    assert policies.known(W) is None and policies.known_member(W, BOB) is None
    assert await policies.find_members(W, [BOB]) == {}


async def test_memory_is_bounded(store: Store, policies: Policies, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies_module, "_MAX_OBJECTS", 40)
    monkeypatch.setattr(policies_module, "_MAX_MEMBERS", 2)
    others = [workspace_id(number) for number in range(20, 28)]
    await policies.find(W)
    for other in others:
        policies.keep(replace(sample_policy(), workspace=other))
        await policies.find(W)
    known = [w for w in (W, *others) if policies.known(w) is not None]
    assert known == [W, *others[-3:]]
    await policies.find_members(W, [ALICE, BOB, CAROL])
    assert sum(policies.known_member(W, facts.user) is not None for facts in MEMBERS) == 2


async def test_an_older_policy_does_not_replace_a_newer_one(policies: Policies) -> None:
    policies.keep(replace(sample_policy(), version=5))
    policies.keep(replace(sample_policy(), version=4))
    policy = policies.known(W)
    assert policy is not None and policy.version == 5


async def test_the_current_version_is_read_from_redis_and_only_grows(store: Store, policies: Policies) -> None:
    assert await policies.current_version(workspace_id(99)) is None
    assert await policies.current_version(W) == 1
    trips = store.mongo.trips, store.cache.trips
    assert await policies.current_version(W) == 1
    assert (store.mongo.trips, store.cache.trips) == (trips[0], trips[1] + 1)
    for version in (3, 2):
        await store.cache.one(policies.versions.raise_call(W, version))
        assert await policies.current_version(W) == 3


async def test_calls_at_the_same_time_share_a_read_that_begins_after_them(store: Store, policies: Policies) -> None:
    versions = policies.versions
    assert await policies.current_version(W) == 1
    trips = store.cache.trips
    assert await asyncio.gather(*(versions.find_joined(W) for _ in range(100))) == [1] * 100
    running = asyncio.create_task(versions.find_joined(W))
    await asyncio.sleep(0)
    await store.cache.one(versions.raise_call(W, 2))
    assert await asyncio.gather(versions.find_joined(W), versions.find_joined(W)) == [2, 2]
    await running
    raising = 1
    assert store.cache.trips - trips == 3 + raising


async def test_a_shared_read_that_fails_fails_all_its_calls(
    store: Store, policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_args: Any) -> Any:
        raise Unreachable("no Redis")

    monkeypatch.setattr(type(store.cache), "one", fail)
    outcomes = await asyncio.gather(*(policies.versions.find_joined(W) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unreachable] * 3
    monkeypatch.undo()
    assert await policies.versions.find_joined(W) == 1


async def test_a_load_that_began_before_a_change_stores_nothing(
    store: Store, policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_one = Mongo.find_one

    async def find_before_a_change(mongo: Mongo, *args: Any, **options: Any) -> Any:
        row = await find_one(mongo, *args, **options)
        await store.cache.one(policies.versions.raise_call(W, 2))
        await store.cache.one(Call("DEL", (store.keys.of_clock(W, "meta"),)))
        return row

    monkeypatch.setattr(Mongo, "find_one", find_before_a_change)
    assert await policies.current_version(W) == 1
    monkeypatch.undo()
    await _raise(store)
    assert await policies.current_version(W) == 2


async def test_the_version_stays_in_redis_for_a_day_and_longer_if_the_clock_does(
    store: Store, policies: Policies
) -> None:
    day = 24 * 3600 * 1000

    async def left_ms(*before: Sequence[Any]) -> int:
        meta = store.keys.of_clock(W, "meta")
        await store.cache.run([Call(str(name), (meta,), tuple(args)) for name, *args in before])
        await store.cache.one(policies.versions.raise_call(W, len(before) + 10))
        return int(await store.cache.one(Call("PTTL", (meta,))))

    assert 0 < await left_ms() <= day
    assert await left_ms(("HSET", "clock", 5), ("PEXPIRE", 2 * day), ("HSET", "clock", 6)) > day


async def test_permissions_are_stored_as_bits(store: Store, policies: Policies) -> None:
    row = await store.mongo.find_one(WORKSPACES, {"_id": W})
    assert row is not None
    assert [role["b"] for role in row["ro"]][1:] == [int(Permission.PIN_MESSAGES), int(Permission.ADMINISTRATOR)]


async def test_facts_that_are_dropped_during_their_read_are_not_kept_but_all_others_are(
    policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = Mongo.find_as_of_one_moment

    async def find_while_changed(self: Mongo, *queries: Any) -> Any:
        rows = await find(self, *queries)
        if queries[0][0] == WORKSPACE_MEMBERS:
            policies.forget_member(W, ALICE)
            policies.forget_member(workspace_id(99), BOB)
        return rows

    await policies.find(W)
    with monkeypatch.context() as patched:
        patched.setattr(Mongo, "find_as_of_one_moment", find_while_changed)
        assert set(await policies.find_members(W, [ALICE, BOB, CAROL])) == {ALICE, BOB, CAROL}
    assert [policies.known_member(W, user) is not None for user in (ALICE, BOB, CAROL)] == [False, True, True]

    async def find_while_all_are_dropped(self: Mongo, *queries: Any) -> Any:
        rows = await find(self, *queries)
        policies.forget_members()
        return rows

    policies.forget_members()
    with monkeypatch.context() as patched:
        patched.setattr(Mongo, "find_as_of_one_moment", find_while_all_are_dropped)
        assert set(await policies.find_members(W, [ALICE, BOB])) == {ALICE, BOB}
    assert policies.known_member(W, BOB) is None
