"""Presence records that Redis evicts: their servers write devices and watches again as soon as they are missed."""

from __future__ import annotations

import asyncio

from store.base.ids import UserId
from store.presence.cached_record import record_from
from store.presence.presence_record import PresenceSetting
from store.redis.cache import Call
from subscriptions.presence.connected_devices import GivenDevice
from tests.api.client import TIMEOUT_SECONDS, Api
from tests.api.presence.connections import Connections, look_at, next_status


async def _evict(api: Api, user: str) -> None:
    store = api.services.app.store
    await store.cache.run([Call("DEL", (key,)) for key in store.keys.presence(UserId(user))])


async def _wait_for_devices(api: Api, user: str) -> None:
    presence = api.services.app.store.presence
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not (await presence.read([UserId(user)]))[UserId(user)].devices:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_devices_are_written_again_when_a_read_misses_the_record(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol)
    connection = api.services.app.devices.connect(UserId(alice), GivenDevice("phone"), lambda: None)
    await _wait_for_devices(other_api, alice)
    await _evict(api, alice)
    query = "query ($ids: [ID!]!) { presences(userIds: $ids) { status } }"
    assert (await other_api.data(bob, query, ids=[alice]))["presences"] == [{"status": "OFFLINE"}]
    await _wait_for_devices(other_api, alice)
    assert (await other_api.data(bob, query, ids=[alice]))["presences"] == [{"status": "ONLINE"}]
    connection.end()


async def test_viewers_get_changes_after_the_watches_were_evicted(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol)
    viewer, first = await look_at(other_api, bob, alice)
    assert first[alice]["status"] == "OFFLINE"
    store = api.services.app.store
    await store.cache.one(Call("DEL", (store.keys.presence(UserId(alice))[1],)))
    await Connections(api).write(alice)
    assert await next_status(viewer) == "ONLINE"


async def test_a_device_written_after_an_eviction_brings_back_watches_and_devices(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    subscriber, _ = await look_at(api, alice, bob)
    phone = api.services.app.devices.connect(UserId(bob), GivenDevice("phone"), lambda: None)
    assert await next_status(subscriber) == "ONLINE"
    await _evict(api, bob)
    # The first change after the eviction is written by another server, and nobody reads the record.
    await Connections(other_api).write(bob, "laptop")
    store = api.services.app.store

    async def servers_of_bob() -> set[str]:
        (answer,) = await store.cache.run([Call("HGETALL", (store.keys.presence(UserId(bob))[0],))])
        return {device.server for device in record_from(UserId(bob), answer).record.devices}

    async with asyncio.timeout(TIMEOUT_SECONDS):
        while await servers_of_bob() != {each.services.app.hub.server for each in (api, other_api)}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await Connections(other_api).set(bob, PresenceSetting.DND)
    assert await next_status(subscriber) == "DND"
    phone.end()
