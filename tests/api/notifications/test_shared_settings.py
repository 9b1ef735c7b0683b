"""Settings are the same for all servers, whatever is lost, and whenever a server dies."""

from __future__ import annotations

import asyncio

import pytest

from store.base.errors import StoreError
from store.base.ids import UserId
from tests.api.client import Api, gather_all
from tests.api.conftest import Deployments, OpenApi
from tests.api.notifications.calls import EVERYTHING, NOTHING_SET, OWN, READY, SET, set_settings, settings_of
from tests.api.paused_step import PausedStep
from tests.api.recovery.failing_steps import Fault, failing
from tests.api.requests.test_budgets import Meter
from tests.clock import ManualClock

STEPS = 5
"""Calls of databases that a change makes, and one more."""


async def test_settings_survive_the_loss_of_redis(api: Api, other_api: Api, deployments: Deployments) -> None:
    (alice,) = await api.create_users("alice")
    await set_settings(api, alice, **EVERYTHING)
    deployments.flush_redis("main")
    for process in (other_api, api):
        await process.services.housekeeper.check_redis()
        assert await settings_of(process, alice) == EVERYTHING
    deployments.evict_user_state("main", alice)
    assert await settings_of(other_api, alice) == EVERYTHING
    assert await set_settings(other_api, alice, level="NONE") == EVERYTHING | {"level": "NONE"}


async def test_changes_at_once_on_two_servers_are_all_kept(api: Api, other_api: Api) -> None:
    (alice,) = await api.create_users("alice")
    changes = [{name: EVERYTHING[name]} for name in ("level", "timeZone", "delaySeconds", "showPreview", "keywords")]
    night = {name: EVERYTHING[name] for name in ("doNotDisturbFrom", "doNotDisturbTo")}
    processes = (api, other_api)
    await gather_all(
        *(set_settings(processes[index % 2], alice, **change) for index, change in enumerate([*changes, night]))
    )
    for process in processes:
        assert await settings_of(process, alice) == EVERYTHING


async def test_one_of_two_times_set_at_once_is_never_left_alone(api: Api, other_api: Api) -> None:
    """Of "off" and a new end, the later one decides on what the earlier one left."""
    (alice,) = await api.create_users("alice")
    for _ in range(5):
        await set_settings(api, alice, doNotDisturbFrom="22:00", doNotDisturbTo="06:00")
        outcomes = await asyncio.gather(
            api.run(alice, SET, input={"doNotDisturbTo": "07:00"}),
            other_api.run(alice, SET, input={"doNotDisturbFrom": ""}),
        )
        assert "errors" not in outcomes[1]
        assert await settings_of(api, alice) == await settings_of(other_api, alice) == NOTHING_SET


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("at", range(1, STEPS + 1))
async def test_all_servers_show_what_is_stored_after_a_server_died(
    api: Api, other_api: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch, fault: Fault, at: int
) -> None:
    (alice,) = await api.create_users("alice")
    await set_settings(api, alice, level="NONE", delaySeconds=1)
    assert (await settings_of(other_api, alice))["level"] == "NONE"
    with failing(api, monkeypatch, fault, at, lambda: deployments.flush_redis("main")):
        answer = await api.run(alice, SET, input={"level": "MENTIONS"})
    await gather_all(*(process.services.housekeeper.check_redis() for process in (api, other_api)))
    stored = (await api.services.app.store.notification_settings.find_many([UserId(alice)]))[UserId(alice)]
    if "errors" not in answer:
        assert stored.level.value == "MENTIONS"
    for process in (other_api, api):
        assert (await settings_of(process, alice))["level"] == stored.level.value
    # The device tries it again.
    await set_settings(other_api, alice, level="MENTIONS")
    for process in (other_api, api):
        assert await settings_of(process, alice) == NOTHING_SET | {"level": "MENTIONS", "delaySeconds": 1}


async def test_settings_are_cached_again_some_time_after_a_server_died_during_a_change(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with open_api("timed", clock) as api, open_api("timed", clock) as dying:
        (alice,) = await api.create_users("alice")
        await api.data(alice, READY)
        store = dying.services.app.store.notification_settings
        paused = PausedStep(store._records, "put", monkeypatch)
        change = asyncio.create_task(set_settings(dying, alice, level="NONE"))
        await paused.reached.wait()
        change.cancel()
        monkeypatch.undo()
        meter = Meter(api)

        async def read() -> None:
            assert (await api.data(alice, OWN))["notificationSettings"]["level"] == "NONE"

        await meter.expect("while the outcome may be unknown", read, 1, 1)
        clock.ms += 121_000
        await meter.expect("later", read, 0, 1)


async def test_a_reader_that_began_before_a_change_does_not_bring_old_settings_back(
    api: Api, other_api: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    (alice,) = await api.create_users("alice")
    paused = PausedStep(api.services.app.store.notification_settings._records, "put", monkeypatch, once=True)
    reading = asyncio.create_task(api.data(alice, OWN))
    await paused.reached.wait()
    await set_settings(other_api, alice, level="NONE")
    paused.resume.set()
    await reading
    for process in (api, other_api):
        assert (await settings_of(process, alice))["level"] == "NONE"


async def test_settings_that_redis_misses_are_put_into_it_later(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    (alice,) = await api.create_users("alice")
    store = api.services.app.store

    async def fail(*_: object) -> None:
        raise StoreError("Redis does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(store.notification_settings._records, "put", fail)
        await api.expect_refusal(alice, SET, input={"level": "NONE"})
    assert store.stale_caches._stale_settings.keys() == {alice}
    await store.stale_caches.invalidate()
    assert (await settings_of(other_api, alice))["level"] == "NONE"
