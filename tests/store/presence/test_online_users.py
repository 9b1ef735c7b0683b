"""Users of a process are looked at again when something about them changes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from store.base.ids import UserId
from store.presence.online_members import OnlineMembers
from store.presence.presence_record import DevicePresence, DeviceType, PresenceRecord, PresenceSetting, Setting
from store.store import Store
from subscriptions.presence.online_users import OnlineUsers
from tests.clock import ManualClock

ANN = UserId("ann")


async def test_scheduled_changes_that_are_out_of_date_are_forgotten(store: Store) -> None:
    clock = ManualClock()
    now = clock.ms
    times = count(now + 1_000_000)
    device = DevicePresence("one", "web", DeviceType.WEB, now, gone_at_ms=None)
    setting = Setting(PresenceSetting.INVISIBLE, now - 60_000, now + 1_000_000)

    def find_record(user: UserId) -> PresenceRecord:
        return PresenceRecord(user, (device,), setting)

    async def list_workspaces(users: Sequence[UserId]) -> dict[UserId, Sequence[object]]:
        return {}

    users = OnlineUsers(
        "one",
        OnlineMembers(store.cache, store.keys),
        clock,
        find_record,
        list_workspaces,  # type: ignore[arg-type]
        lambda: ("one",),
    )
    for _ in range(2_000):
        users.note([ANN])
        await users.write()
    assert len(users._due) == 1
    for _ in range(5_000):
        setting = Setting(PresenceSetting.INVISIBLE, now - 60_000, next(times))
        users.note([ANN])
        await users.write()
    assert len(users._due) < 2_000
    assert ANN not in users._written
    clock.ms = next(times)
    await users.write()
    assert ANN in users._written
    assert users._due == []
