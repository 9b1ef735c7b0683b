"""Workers in the background: how soon they work, and what they cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from resolvers.push.worker.recipients import SLICE
from store.base.ids import UserId
from store.devices.device import PushAddress, PushPlatform
from store.devices.device_store import DeviceKey, DeviceUpdate
from store.presence.presence_record import DeviceType
from tests.api.client import Api, gather_all, private_id
from tests.api.conftest import OpenApi
from tests.api.requests.test_budgets import MINIMAL_READ, Meter
from tests.push.pushing import Pushing
from tests.push.recording import RecordingService
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def service() -> RecordingService:
    return RecordingService()


@pytest.fixture(scope="module")
async def working(open_api: OpenApi, service: RecordingService) -> AsyncIterator[Api]:
    async with open_api("working", push_services={PushPlatform.FCM: service}) as api:
        yield api


async def add_phones(api: Api, *users: str) -> None:
    devices = api.services.app.store.devices
    for user in users:
        update = DeviceUpdate(DeviceType.MOBILE, push=PushAddress(PushPlatform.FCM, f"{user}:phone"))
        await devices.update(DeviceKey(UserId(user), "phone"), update, 1)


async def test_a_push_is_sent_without_further_calls(working: Api, service: RecordingService) -> None:
    alice, bob = await working.create_users("alice", "bob")
    await add_phones(working, bob)
    await working.send(alice, bob)
    await wait_for(lambda: len(service.to(bob)) == 1)
    await working.mark_read(bob, private_id(alice, bob))
    await wait_for(lambda: len(service.quiet_to(bob)) == 1)


async def test_messages_of_servers_without_workers_are_pushed_by_others(
    open_api: OpenApi, working: Api, service: RecordingService
) -> None:
    async with open_api("working", push_services={PushPlatform.FCM: service}, workers=False) as api:
        alice, bob = await api.create_users("alice", "bob")
        await add_phones(api, bob)
        await api.send(alice, bob)
        await wait_for(lambda: len(service.to(bob)) == 1)
        assert api.services.push_worker is not None and not api.services.push_worker.sender.outcomes


async def test_a_closing_worker_completes_its_pushes(open_api: OpenApi) -> None:
    service = RecordingService()
    service.gate.clear()
    async with open_api("closing", push_services={PushPlatform.FCM: service}) as api:
        alice, bob = await api.create_users("alice", "bob")
        await add_phones(api, bob)
        await api.send(alice, bob)
        await wait_for(lambda: len(service.to(bob)) == 1)
        asyncio.get_running_loop().call_later(0.2, service.gate.set)
    async with open_api("closing", push_services={PushPlatform.FCM: service}) as api:
        waiting, _ = await api.services.app.store.push_intents.measure()
        assert waiting == 0


async def test_without_push_services_nothing_is_noted(open_api: OpenApi) -> None:
    async with open_api("without") as api:
        alice, bob = await api.create_users("alice", "bob")
        await add_phones(api, bob)
        await api.send(alice, bob)
        await api.mark_read(bob, private_id(alice, bob))
        await api.wait_until_idle()
        store = api.services.app.store
        assert await store.noted_conversations.measure() == await store.push_intents.measure() == (0, 0)
        assert api.services.push_worker is None


async def test_sending_and_reading_wait_for_no_further_round_trip(working: Api) -> None:
    meter = Meter(working)
    alice, bob, carol = await working.create_users("alice", "bob", "carol")
    await add_phones(working, alice, bob, carol)
    group = await working.create_group(alice, bob, carol)
    for user in (alice, bob, carol):
        await working.sessions(user)
    await meter.expect("sendMessage, private", lambda: meter.send(alice, bob), 1, 2)
    await meter.expect("sendMessage, group", lambda: meter.send(alice, group), 1, 2)

    async def read() -> None:
        await working.data(bob, MINIMAL_READ, id=private_id(alice, bob), seq=None)

    await meter.expect("markRead, lock included", read, 1, 2, prepare=lambda: meter.send(alice, bob))


async def test_the_recipients_of_a_large_group_cost_a_round_trip_for_each_slice(pushing: Pushing) -> None:
    api = pushing.api
    alice, bob = await pushing.create_users("alice", "bob")
    crowd = await api.create_many_users(f"crowd{time.time_ns()}", 1_000)
    group = await api.create_group(alice, bob, *crowd[:998])
    await pushing.work()
    store = api.services.app.store
    await pushing.send(alice, group)
    await api.wait_until_idle()
    mongo, redis = store.mongo.trips + store.mongo.background_trips, store.cache.trips + store.cache.background_trips
    await pushing.worker.run_due()
    assert pushing.service.texts(bob) == [("Group", "Alice: hello")]
    assert store.mongo.trips + store.mongo.background_trips - mongo <= 2 * 1_000 // SLICE + 12
    assert store.cache.trips + store.cache.background_trips - redis <= 30


async def test_many_members_with_phones_get_one_notification_each(pushing: Pushing) -> None:
    api = pushing.api
    alice, *members = await pushing.create_users("alice", *(f"m{number:03}" for number in range(250)))
    group = await api.create_group(alice, *members)
    await pushing.work()
    for number in range(3):
        await pushing.send(alice, group, f"number {number}")
    await pushing.work()
    assert {user: pushing.service.texts(user) for user in members} == {
        user: [("Group", "Alice: number 2")] for user in members
    }
    await gather_all(*(api.mark_read(user, group) for user in members[:20]))
    await pushing.work()
    assert sum(push.message.is_quiet for push in pushing.service.pushes) == 20
