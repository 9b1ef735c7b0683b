"""Calls of push services: outcomes, retries, bounds."""

from __future__ import annotations

from resolvers.push.push_service import PushOutcome, PushResult
from resolvers.push.worker import push_sender
from store.base.ids import UserId
from store.devices.device import PushPlatform
from tests.api.client import gather_all, private_id
from tests.api.conftest import Deployments
from tests.api.devices.calls import register
from tests.push.pushing import Pushing
from tests.push.recording import GONE, REFUSED, UNREACHABLE
from tests.push.services.subscription import Subscription
from tests.waiting import wait_for


async def test_an_address_that_is_gone_is_forgotten(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    pushing.service.answers.append(GONE)
    await pushing.send(alice, bob)
    await pushing.work()
    assert await pushing.api.services.app.store.devices.list_pushed([UserId(bob)]) == {}
    await pushing.send(alice, bob, "again")
    await pushing.pass_time(10)
    assert len(pushing.service.to(bob)) == 1


async def test_an_address_that_was_replaced_meanwhile_stays(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    service = pushing.service
    service.gate.clear()
    service.answers.append(GONE)
    await pushing.send(alice, bob)
    await pushing.worker._expand()
    await pushing.worker._decide_due()
    await wait_for(lambda: bool(service.to(bob)))
    await pushing.add_device(bob, "phone2")
    store = pushing.api.services.app.store
    await register(pushing.api, bob, "phone", type="MOBILE", pushPlatform="FCM", pushToken="other")
    service.gate.set()
    await pushing.work()
    (devices,) = (await store.devices.list_pushed([UserId(bob)])).values()
    assert {device.push.token for device in devices if device.push is not None} == {"other", f"{bob}:phone2"}


async def test_a_refused_push_is_not_repeated(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    pushing.service.answers.append(REFUSED)
    refused = pushing.worker.sender.outcomes[PushPlatform.FCM, PushOutcome.REFUSED]
    await pushing.send(alice, bob)
    await pushing.work()
    await pushing.pass_time(1200)
    assert len(pushing.service.to(bob)) == 1
    assert pushing.worker.sender.outcomes[PushPlatform.FCM, PushOutcome.REFUSED] == refused + 1


async def test_an_unreachable_service_is_tried_again_four_times(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    pushing.service.answers.extend([UNREACHABLE] * 5)
    await pushing.send(alice, bob)
    counts = []
    await pushing.work()
    for pause in (0.5, 1, 5, 8, 30, 45, 300, 500, 1000, 4000):
        counts.append(len(pushing.service.to(bob)))
        await pushing.pass_time(pause)
    assert counts == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert len(pushing.service.to(bob)) == 5


async def test_a_retry_shows_the_newest_message(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    pushing.service.answers.append(UNREACHABLE)
    await pushing.send(alice, bob, "one")
    await pushing.work()
    await pushing.send(alice, bob, "two")
    await pushing.pass_time(2)
    assert pushing.service.texts(bob) == [("Alice", "one"), ("Alice", "two")]
    pushing.service.answers.append(UNREACHABLE)
    await pushing.send(alice, bob, "three")
    await pushing.pass_time(6)
    await pushing.api.mark_read(bob, private_id(alice, bob))
    await pushing.pass_time(60)
    assert len(pushing.service.shown_to(bob)) == 3


async def test_a_retry_goes_to_the_devices_that_were_not_reached(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.add_device(bob, "tablet", PushPlatform.APNS)
    pushing.services[PushPlatform.APNS].answers.append(UNREACHABLE)
    await pushing.send(alice, bob)
    await pushing.work()
    await pushing.pass_time(2)
    assert len(pushing.service.to(bob)) == 1
    assert len(pushing.services[PushPlatform.APNS].to(bob)) == 2


async def test_a_push_is_given_up_one_hour_after_its_message(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.send(alice, bob)
    await pushing.pass_time(3_611)
    assert pushing.service.to(bob) == []


async def test_nothing_is_sent_to_a_service_that_asked_for_a_pause(pushing: Pushing) -> None:
    alice, bob, carol = await pushing.create_users("alice", "bob", "carol")
    await pushing.add_device(carol, "tablet", PushPlatform.APNS)
    pushing.service.answers.append(PushResult(PushOutcome.UNREACHABLE, "busy", retry_after_seconds=120))
    await pushing.send(alice, bob)
    await pushing.work()
    await pushing.send(alice, carol)
    await pushing.work()
    assert len(pushing.service.pushes) == 1
    # Other services are not concerned.
    assert len(pushing.services[PushPlatform.APNS].to(carol)) == 1
    await pushing.pass_time(100)
    assert len(pushing.service.pushes) == 1
    await pushing.pass_time(25)
    assert len(pushing.service.to(bob)) == 2 and len(pushing.service.to(carol)) == 1


async def test_a_push_that_has_to_wait_does_not_load_the_state_of_its_user(
    pushing: Pushing, deployments: Deployments
) -> None:
    alice, bob, carol = await pushing.create_users("alice", "bob", "carol")
    pushing.service.answers.append(PushResult(PushOutcome.UNREACHABLE, "busy", retry_after_seconds=120))
    await pushing.send(alice, bob)
    await pushing.work()
    await pushing.send(alice, carol)
    await pushing.api.wait_until_idle()
    deployments.evict_user_state("main", carol)
    await pushing.work()
    assert not deployments.keys("main", f"*{{u:{carol}}}:sessions")
    await pushing.pass_time(125)
    assert pushing.last(carol).message.badge == 1


async def test_a_hanging_service_delays_no_other_and_is_bounded(pushing: Pushing) -> None:
    alice, *others = await pushing.create_users("alice", *(f"u{number:03}" for number in range(100)))
    (fast,) = await pushing.api.create_users("zoe")
    await pushing.add_device(fast, "tablet", PushPlatform.APNS)
    pushing.service.gate.clear()
    await gather_all(*(pushing.send(alice, other) for other in others))
    await pushing.send(alice, fast)
    await pushing.worker._expand()
    await pushing.worker._decide_due()
    await wait_for(lambda: len(pushing.services[PushPlatform.APNS].to(fast)) == 1)
    await wait_for(lambda: pushing.service.most_at_once == push_sender.AT_ONCE)
    pushing.service.gate.set()
    await pushing.work()
    assert pushing.service.most_at_once == push_sender.AT_ONCE
    await pushing.pass_time(3)
    assert {push.token for push in pushing.service.pushes} == {f"{other}:phone" for other in others}


async def test_a_platform_without_a_service_is_counted(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    outcomes = pushing.worker.sender.outcomes
    before = outcomes[PushPlatform.WEB_PUSH, PushOutcome.NOT_CONFIGURED]
    await register(
        pushing.api, bob, "browser", pushPlatform="WEB_PUSH", webPush=Subscription("https://push.example.org/x").input
    )
    await pushing.send(alice, bob)
    await pushing.expect(bob, ("Alice", "hello"))
    assert outcomes[PushPlatform.WEB_PUSH, PushOutcome.NOT_CONFIGURED] == before + 1
