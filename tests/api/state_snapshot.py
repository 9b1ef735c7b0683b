"""A snapshot of what users read, what is stored and which events arrive, to prove that an operation changed nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, SYNC, Api, Json, Subscriber, gather_all

SILENCE_SECONDS = 0.03


async def wait_for_thread_events(api: Api) -> None:
    """Wait until all changed threads are published, which may take a second."""
    await api.wait_until_idle()
    while api.services.app.threads.pending:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await api.wait_until_idle()


async def read_everything(api: Api, user: str, group: str) -> Json:
    """Return everything that a user can read about a group, and the whole session list with clock and cursor."""
    group_view = await api.group(user, group)
    return {
        "group": group_view,
        "history": await api.history(user, group) if group_view is not None else None,
        "session": await api.session(user, group),
        "list": await api.all_sessions(user),
        "sync": (await api.data(user, SYNC))["syncSessions"],
        "total": await api.total_unread(user),
        "groups": await api.my_groups(user),
    }


class StateSnapshot:
    """A snapshot of what all users read and of what MongoDB stores, with a device of each user that listens."""

    def __init__(self, api: Api, group: str, users: Iterable[str]) -> None:
        self._api = api
        self._group = group
        self._users = list(users)
        self._devices: list[Subscriber] = []
        self._stored: dict[str, str] = {}
        self._before: list[Json] = []

    async def take(self) -> None:
        """Take the snapshot."""
        await wait_for_thread_events(self._api)
        for user in self._users:
            for query in (LIVE_MESSAGES, LIVE_SESSIONS):
                self._devices.append(await self._api.listen(user, query))
        self._before = await self._read()
        self._stored = await self._api.stored_hashes()

    async def assert_unchanged(self) -> None:
        """Fail if anything differs from the snapshot, or if a device received an event."""
        assert await self._api.stored_hashes() == self._stored
        for user, before, after in zip(self._users, self._before, await self._read(), strict=True):
            assert after == before, user
        await gather_all(*(device.expect_no_event(SILENCE_SECONDS) for device in self._devices))

    async def _read(self) -> list[Json]:
        return await gather_all(*(read_everything(self._api, user, self._group) for user in self._users))


async def take_snapshot(api: Api, group: str, *users: str) -> StateSnapshot:
    """Return a snapshot of the current state."""
    snapshot = StateSnapshot(api, group, users)
    await snapshot.take()
    return snapshot
