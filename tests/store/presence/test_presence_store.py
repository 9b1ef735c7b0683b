"""Presence records in real databases, also when Redis loses some or all of them."""

from __future__ import annotations

from store.base.ids import UserId
from store.presence.presence_record import CustomStatus, DevicePresence, DeviceType, PresenceSetting
from store.presence.presence_store import DeviceChange
from store.store import Store

ANNA = UserId("anna")


def a_device(server: str = "s1", device: str = "phone", **fields: int) -> DevicePresence:
    return DevicePresence(server, device, DeviceType.MOBILE, 1_000, **fields)


async def test_a_change_returns_the_record_and_the_servers_that_show_it(store: Store) -> None:
    presence = store.presence
    watched = await presence.watch([ANNA], "s2", store.clock.now_ms() + 60_000)
    assert watched[ANNA].devices == ()
    (change,) = await presence.change_devices([DeviceChange(ANNA, "s1", [a_device()])])
    assert change.before == watched[ANNA]
    assert change.record.devices == (a_device(),) and change.servers == ["s2"]
    assert change.record.version > watched[ANNA].version
    assert await presence.read([ANNA]) == {ANNA: change.record}
    await presence.unwatch([ANNA], "s2")
    (change,) = await presence.change_devices([DeviceChange(ANNA, "s1", removed=["phone"])])
    assert change.record.devices == () and change.servers == []


async def test_a_setting_and_a_custom_status_outlast_redis(store: Store) -> None:
    presence, status = store.presence, CustomStatus("away", None, 5_000)
    await presence.set_presence(ANNA, PresenceSetting.DND, 2_000_000_000_000)
    change = await presence.set_custom_status(ANNA, status)
    record = change.record
    assert (record.setting.value, record.setting.until_ms) == (PresenceSetting.DND, 2_000_000_000_000)
    assert record.custom_status == status
    await store.deployment.generations.begin_next()
    await store.deployment.check_redis()
    (found,) = (await presence.read([ANNA])).values()
    assert (found.setting, found.custom_status) == (record.setting, record.custom_status)
