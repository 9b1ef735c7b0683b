"""Users see the presence of those who share a conversation or a workspace with them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from bench.session_data import insert_owner, peer_name
from resolvers.base.errors import RateLimited
from resolvers.base.work_budgets import WorkBudgets
from resolvers.presence import audience
from resolvers.presence.audience import MAX_USERS, find_visible
from store.base.ids import UserId
from tests.api.client import Api, private_id
from tests.api.threads.calls import FOLLOW, thread_of
from tests.api.workspaces.calls import DELETE, LEAVE, add_members, create_workspace

STRANGERS = [f"nobody{number}" for number in range(MAX_USERS)]


@pytest.fixture(params=["each place is looked for", "groups are listed"], autouse=True)
def few_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in parts of three rows, in both ways."""
    monkeypatch.setattr(audience, "_ROWS_AT_ONCE", 3)
    monkeypatch.setattr(audience, "_MAX_PLACES", 0 if request.param == "groups are listed" else 1_000_000)


async def visible(api: Api, viewer: str, users: Collection[str]) -> set[str]:
    """Return those of some users whose presence a viewer may see."""
    return {
        str(user)
        for user in (await find_visible(api.services.app, UserId(viewer), [UserId(user) for user in users])).users
    }


async def test_strangers_are_not_visible_and_the_viewer_is(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, carol)
    await api.create_group(bob, carol, *await api.create_users("dave"))
    assert await visible(api, alice, [alice, bob, carol, "nobody"]) == {alice}
    assert await visible(api, alice, []) == set()


@pytest.mark.parametrize("sub_biz", [None, "shop"])
async def test_a_private_conversation_of_any_sub_biz_counts_for_both(api: Api, sub_biz: str | None) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice, subBiz=sub_biz)
    assert await visible(api, alice, [bob, carol]) == {bob}
    assert await visible(api, bob, [alice, carol]) == {alice}
    await api.delete(alice, private_id(alice, bob, sub_biz), hard=True)
    assert await visible(api, alice, [bob, carol]) == {bob}


async def test_a_private_conversation_without_a_message_counts(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    store = api.services.app.store
    await store.conversations.open_private(private_id(alice, bob), store.clock.now_ms())
    assert await visible(api, alice, [bob]) == {bob}


@pytest.mark.parametrize("suffix", ["1", "_", "~shop", "!"])
async def test_users_whose_ids_begin_alike_are_distinguished(api: Api, suffix: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    longer = bob + suffix
    await api.upsert_users({"id": longer, "displayName": "Longer"})
    await api.send(alice, longer, subBiz="shop")
    await api.create_group(longer, *await api.create_users("carol", "dave"))
    assert await visible(api, alice, [longer, bob, bob[:-1]]) == {longer}
    await api.send(alice, bob)
    assert await visible(api, alice, [longer, bob, bob[:-1]]) == {longer, bob}


async def test_members_of_a_group_see_each_other_until_one_of_them_leaves(api: Api) -> None:
    alice, bob, carol, dave, eve = await api.create_users("alice", "bob", "carol", "dave", "eve")
    group = await api.create_group(alice, bob, carol, dave)
    assert await visible(api, bob, [alice, carol, dave, eve]) == {alice, carol, dave}
    await api.leave(carol, group)
    await api.remove(alice, group, dave)
    assert await visible(api, bob, [alice, carol, dave]) == {alice}
    assert await visible(api, carol, [alice, bob, dave]) == set()
    await api.invite(alice, group, carol)
    assert await visible(api, bob, [alice, carol, dave]) == {alice, carol}
    assert await visible(api, carol, [alice, bob, dave]) == {alice, bob}


@pytest.mark.parametrize("end", ["dissolve", "dismiss"])
async def test_a_group_that_has_ended_does_not_count(api: Api, end: str) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    ended = await api.create_group(alice, bob, carol)
    await api.create_group(alice, bob, dave)
    await getattr(api, end)(alice, ended)
    assert await visible(api, alice, [bob, carol, dave]) == {bob, dave}
    assert await visible(api, carol, [alice, bob]) == set()


async def test_users_who_share_one_of_many_groups_are_visible(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(6)))
    groups = [await api.create_group(alice, *others[:2]) for _ in range(3)]
    groups += [await api.create_group(alice, *pair) for pair in (others[2:4], others[4:])]
    await api.leave(others[0], groups[0])
    assert await visible(api, alice, others) == set(others)
    assert await visible(api, others[0], others) == {others[0], others[1]}


async def test_a_followed_thread_counts_only_by_its_conversation(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    parent = (await api.send(alice, group))["message"]
    thread = thread_of(parent)
    await api.send(bob, parent["id"])
    await api.data(carol, FOLLOW, id=thread, on=True)
    await api.leave(carol, group)
    assert await visible(api, carol, [alice, bob]) == set()
    assert await visible(api, bob, [alice, carol]) == {alice}


async def test_members_of_a_workspace_see_each_other_until_one_of_them_leaves(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob, carol)
    assert await visible(api, bob, [alice, carol, dave]) == {alice, carol}
    await api.data(carol, LEAVE, id=workspace)
    assert await visible(api, bob, [alice, carol, dave]) == {alice}
    assert await visible(api, carol, [alice, bob]) == set()


async def test_a_deleted_workspace_does_not_count_even_before_its_rows_are_removed(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspaces = [await create_workspace(api, alice) for _ in range(2)]
    for workspace in workspaces:
        await add_members(api, workspace, bob)
    await api.data(alice, DELETE, id=workspaces[0])
    assert api.database["workspaces_of"].count_documents({"_id": f"{bob} {workspaces[0]}"}) == 1
    assert await visible(api, alice, [bob]) == {bob}
    await api.data(alice, DELETE, id=workspaces[1])
    assert await visible(api, alice, [bob]) == set()


class OwnTrips:
    """Counts the round trips of this task in the place of the attribute `trips`: housekeeping has tasks of its own."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self.count = 0

    def __get__(self, instance: object, owner: type | None = None) -> int:
        return self.count

    def __set__(self, instance: object, value: int) -> None:
        if asyncio.current_task() is self._task:
            self.count = value


async def test_strangers_take_the_same_reads_as_unknown_ids(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    await api.send(alice, bob)
    await api.create_group(alice, bob, carol)
    await create_workspace(api, alice)
    await api.send(dave, bob)
    trips = OwnTrips()
    monkeypatch.setattr(type(api.services.app.store.mongo), "trips", trips, raising=False)
    work = []
    for user in (dave, "nobody", dave, "nobody"):
        trips.count = 0
        assert await visible(api, alice, [user]) == set()
        work.append(trips.count)
    assert work == [4] * 4


async def test_the_answer_for_thousands_of_sessions_is_exact(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (many,) = await api.create_users("many")
    insert_owner(api.database, many, 2_000, groups_only=True)
    peers = [peer_name(number) for number in range(MAX_USERS)]
    members = {row["_id"].split()[1] for row in api.database["members"].find({}, {"_id": 1})}
    assert await visible(api, many, peers) == members & set(peers)
    assert await visible(api, many, STRANGERS) == set()


async def test_work_is_charged_and_refused_beyond_the_budget(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol)
    monkeypatch.setattr(api.services.app.work, "per_second", 1)
    monkeypatch.setattr(api.services.app.work, "size", 1_000)
    budget: WorkBudgets = api.services.app.work
    assert await visible(api, alice, [bob]) == {bob}
    assert 990 <= budget.remaining(UserId(alice)) < 1_000
    assert await visible(api, alice, STRANGERS) == set()
    remaining = budget.remaining(UserId(alice))
    assert remaining < 700
    budget.charge(UserId(alice), remaining)
    with pytest.raises(RateLimited):
        await visible(api, alice, STRANGERS)
