"""A presence store with a clock that tests move."""

from __future__ import annotations

import pytest

from store.presence.presence_store import PresenceStore
from store.store import Store
from tests.clock import ManualClock
from tests.store.presence.stores import open_presence


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def presence(store: Store, clock: ManualClock) -> PresenceStore:
    return open_presence(store, clock)
