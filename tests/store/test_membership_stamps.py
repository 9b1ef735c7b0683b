"""Stamps of memberships: a change that was refused or forgotten leaves nothing that stays."""

from __future__ import annotations

from contextlib import suppress

import pytest

from store.base.errors import Refused, StoreError, Unreachable
from store.base.ids import UserId
from store.store import Store
from store.workspaces.copies.membership_stamps import MembershipStamps
from tests.clock import ManualClock
from tests.store.workspaces import BOB, W


class World:
    """Stamps of a user and of a workspace, with a clock that stands still."""

    def __init__(self, store: Store) -> None:
        self.clock = ManualClock()
        self.cache = store.cache
        self.stamps = MembershipStamps(store.cache, store.keys, self.clock)
        self.keys = [self.stamps.of_user(BOB), self.stamps.of_workspace(W)]

    async def read(self) -> list[str | None]:
        answers = await self.cache.run([*map(self.stamps.read_call, self.keys)])
        return [self.stamps.parse(answer) for answer in answers]

    async def count_fields(self) -> list[int]:
        return [len(answer) // 2 for answer in await self.cache.run([*map(self.stamps.read_call, self.keys)])]

    async def change(self, failure: Exception | None = None, user: UserId = BOB) -> None:
        with suppress(Refused, StoreError):
            async with self.stamps.changing([user], [W]):
                assert await self.read() == ["", ""]
                if failure is not None:
                    raise failure


@pytest.fixture
def world(store: Store) -> World:
    return World(store)


async def test_a_refused_change_leaves_stamps_as_they_were(world: World) -> None:
    stamp = await world.stamps.begin(world.keys)
    for _ in range(3):
        await world.change(Refused())
    assert await world.read() == [stamp, stamp]
    assert await world.count_fields() == [1, 1]


async def test_nothing_is_kept_after_an_unknown_outcome(world: World) -> None:
    await world.stamps.begin(world.keys)
    await world.change(Unreachable())
    await world.change()
    await world.change(Refused())
    assert await world.read() == ["", ""]
    world.clock.ms += 120_001
    assert await world.read() == [None, None]


async def test_a_new_change_removes_those_that_nobody_ended(world: World) -> None:
    stamp = await world.stamps.begin(world.keys)
    for _ in range(3):
        await world.change(Unreachable())
    assert await world.count_fields() == [4, 4]
    world.clock.ms += 120_001
    await world.change(Refused())
    # The changes that nobody ended may have been stored.
    assert await world.read() == [None, None] and await world.count_fields() == [0, 0]
    await world.change()
    assert stamp not in await world.read() and await world.count_fields() == [1, 1]
