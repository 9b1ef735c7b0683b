"""Presence records in real databases against a naive model, with two servers and losses of Redis."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from store.base.ids import UserId
from store.presence.presence_record import DevicePresence, DeviceType, PresenceSetting
from store.presence.presence_store import DeviceChange
from store.presence.shown_presence import ANNOUNCED_AFTER_MS, PresenceStatus, shown_presence
from store.store import Store
from tests.clock import ManualClock
from tests.store.presence.stores import evict, open_presence

SERVERS = ("s1", "s2")
TYPES = {"phone": DeviceType.MOBILE, "laptop": DeviceType.DESKTOP}
MINUTE = 60_000
INVISIBLE = PresenceSetting.INVISIBLE

Key = tuple[str, str]


@dataclass
class Model:
    """A user, by the events alone: which devices others see, and when they last saw one being used."""

    now: int
    devices: dict[Key, DevicePresence] = field(default_factory=dict)
    departed: dict[Key, tuple[int, int, bool]] = field(default_factory=dict)
    """By device: when it departed, since when it was there, and whether it was idle."""
    setting: PresenceSetting = PresenceSetting.ONLINE
    before: PresenceSetting = PresenceSetting.ONLINE
    hidden_at: int | None = None
    last_use: int | None = None
    has_lost: bool = False

    def depart(self, key: Key) -> None:
        """Let others see that a device is not there any more."""
        device = self.devices[key]
        self.departed[key] = (self.now, device.since_ms, device.idle_since_ms is not None)
        self.see()

    def see(self) -> None:
        """Let others see what is being used."""
        if self.hidden_at is None:
            uses = [self.now if d.idle_since_ms is None else d.idle_since_ms for d in self.devices.values()]
            self.last_use = max([*uses, self.last_use or 0], default=0) or None

    def set(self, value: PresenceSetting) -> None:
        if value is INVISIBLE and self.hidden_at is None:
            for key in self.devices:
                self.depart(key)
            self.hidden_at, self.before = self.now, self.setting
        elif value is not INVISIBLE and self.hidden_at is not None:
            for device in self.devices.values():
                if device.idle_since_ms is not None and device.idle_since_ms >= self.hidden_at:
                    self.last_use = self.now
            self.hidden_at = None
            self.see()
        self.setting = value

    def status(self) -> tuple[PresenceStatus, bool]:
        """Return the status that is shown, and whether only mobile devices are."""
        found: dict[str, tuple[Any, bool]] = {}
        for (server, name), (gone, since, idle) in self.departed.items():
            if self.now < gone + ANNOUNCED_AFTER_MS:
                found[name] = max(found.get(name, ((), False)), ((0, gone, since, server), idle))
        if self.hidden_at is None:
            for (server, name), device in self.devices.items():
                idle = device.idle_since_ms is not None
                found[name] = max(found.get(name, ((), False)), ((1, 0, device.since_ms, server), idle))
        if not found:
            return PresenceStatus.OFFLINE, False
        shown = self.before if self.hidden_at is not None else self.setting
        is_mobile = found.keys() == {"phone"}
        if shown is PresenceSetting.DND:
            return PresenceStatus.DND, is_mobile
        is_idle = shown is PresenceSetting.IDLE or all(idle for _, idle in found.values())
        return PresenceStatus.IDLE if is_idle else PresenceStatus.ONLINE, is_mobile


_devices = st.tuples(st.sampled_from(SERVERS), st.sampled_from(list(TYPES)))
_steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["connect", "disconnect", "idle", "use"]), _devices),
        st.tuples(st.just("set"), st.sampled_from(PresenceSetting)),
        st.tuples(st.just("wait"), st.sampled_from([1_000, 9_000, 14_999, 15_000, 70_000, 4_000_000])),
        st.tuples(st.just("lose"), st.sampled_from(["presence", "pwatch", ""])),
    ),
    max_size=25,
)
_users = itertools.count()


async def test_records_are_those_of_a_naive_model(store: Store) -> None:
    loop = asyncio.get_running_loop()

    @settings(max_examples=100)
    @given(_steps, st.randoms(use_true_random=False))
    def examples(steps: list[tuple[str, Any]], random: Any) -> None:
        asyncio.run_coroutine_threadsafe(_compare(store, steps, random), loop).result(30)

    await asyncio.to_thread(examples)


async def _compare(store: Store, steps: list[tuple[str, Any]], random: Any) -> None:
    user = UserId(f"user{next(_users)}")
    clock = ManualClock()
    stores = [open_presence(store, clock) for _ in SERVERS]
    model = Model(clock.ms)
    for kind, what in steps:
        presence = random.choice(stores)
        clock.ms += what if kind == "wait" else 1
        model.now = clock.ms
        model.see()
        match kind:
            case "wait":
                pass
            case "set":
                await presence.set_presence(user, what, None)
                model.set(what)
            case "lose":
                await evict(store, user, *([what] if what else []))
                if what != "pwatch":
                    model.departed.clear()
                    model.has_lost = True
                    changes = [DeviceChange(user, key[0], [device]) for key, device in model.devices.items()]
                    await presence.change_devices(changes)
            case _:
                key = what
                server, name = key
                device = model.devices.get(key)
                if kind == "connect":
                    device = DevicePresence(server, name, TYPES[name], clock.ms)
                    if model.hidden_at is None:
                        model.departed.pop(key, None)
                elif device is None:
                    continue
                elif kind == "idle":
                    device = replace(device, idle_since_ms=clock.ms)
                elif kind == "use":
                    device = replace(device, idle_since_ms=None)
                elif model.hidden_at is None:
                    model.depart(key)
                put = replace(device, gone_at_ms=clock.ms) if kind == "disconnect" else device
                (change,) = await presence.change_devices([DeviceChange(user, server, [put])])
                assert change.before is not None and change.record.version > change.before.version
                if kind == "disconnect":
                    del model.devices[key]
                else:
                    model.devices[key] = device
                model.see()
        record = (await random.choice(stores).read([user]))[user]
        shown = shown_presence(record, lambda server: None, clock.ms).shown
        assert record.setting.value is model.setting
        assert (shown.status, shown.is_mobile) == model.status()
        last_use = model.last_use - model.last_use % MINUTE if model.last_use is not None else None
        if not model.has_lost:
            assert shown.last_active_at_ms == last_use
        elif shown.last_active_at_ms is not None:
            assert last_use is not None and shown.last_active_at_ms <= last_use
