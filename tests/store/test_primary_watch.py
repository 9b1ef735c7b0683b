"""The watch knows whether MongoDB has a primary, although the driver reports changes late."""

from __future__ import annotations

from collections.abc import Container

import pytest
from bson import ObjectId
from pymongo.monitoring import TopologyDescriptionChangedEvent
from pymongo.topology_description import TopologyDescription

from store.mongo.client import Mongo
from store.mongo.primary import PrimaryWatch

_GRACE_SECONDS = 60


@pytest.fixture
async def with_primary(mongo_url: str, mongo_database_name: str) -> TopologyDescription:
    """The driver's description of a replica set that has a primary."""
    mongo = Mongo(mongo_url, mongo_database_name)
    await mongo.ping()
    description: TopologyDescription = mongo._client.topology_description
    await mongo.close()
    assert description.has_writable_server()
    return description


class _Driver:
    """A driver that reports its events when a test says so."""

    def __init__(self, known: TopologyDescription) -> None:
        self.known = known
        self._events: list[TopologyDescriptionChangedEvent] = []
        self.watch = PrimaryWatch(_GRACE_SECONDS, lambda: self.known)
        self.writable = list[Container[tuple[str, int | None]]]()
        self.watch.on_change = self.writable.append

    def change(self, known: TopologyDescription) -> None:
        self._events.append(TopologyDescriptionChangedEvent(self.known, known, ObjectId()))
        self.known = known

    def end_grace_period(self) -> None:
        self.watch._grace_seconds = -1

    def report_next(self) -> None:
        self.watch.description_changed(self._events.pop(0))


async def test_motor_reports_its_first_event_without_an_error(
    mongo_url: str, mongo_database_name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    mongo = Mongo(mongo_url, mongo_database_name, "motor")
    await mongo.ping()
    await mongo.close()
    assert capfd.readouterr().err == ""


async def test_a_primary_that_is_found_counts_before_its_event_arrives(with_primary: TopologyDescription) -> None:
    driver = _Driver(with_primary)
    driver.change(with_primary.reset())
    driver.report_next()
    assert not driver.watch.is_lost
    driver.end_grace_period()
    assert driver.watch.is_lost
    driver.change(with_primary)
    assert not driver.watch.is_lost
    driver.report_next()
    assert not driver.watch.is_lost


async def test_a_primary_that_was_found_for_a_moment_starts_a_new_grace_period(
    with_primary: TopologyDescription,
) -> None:
    driver = _Driver(with_primary)
    driver.change(with_primary.reset())
    driver.report_next()
    driver.end_grace_period()
    driver.change(with_primary)
    driver.change(with_primary.reset())
    assert driver.watch.is_lost
    driver.watch._grace_seconds = _GRACE_SECONDS
    before = driver.watch._missing_since
    driver.report_next()
    assert driver.watch._missing_since is None
    driver.report_next()
    assert driver.watch._missing_since != before
    assert not driver.watch.is_lost


async def test_a_late_event_does_not_end_connections_to_the_current_primary(with_primary: TopologyDescription) -> None:
    driver = _Driver(with_primary.reset())
    driver.change(with_primary)
    driver.change(with_primary.reset())
    driver.report_next()
    assert driver.writable == []
    driver.change(with_primary)
    driver.report_next()
    driver.report_next()
    (address,) = with_primary.server_descriptions()
    assert driver.writable == [{address}, {address}]
