"""Proof that nothing happened: all that everybody is shown, all that is stored, and the silence of all devices."""

from __future__ import annotations

from collections.abc import Iterable

from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, SYNC, Api, Json, Subscriber, together

SILENCE_SECONDS = 0.03


async def seen_by(api: Api, user: str, group: str) -> Json:
    """A group and the whole list of sessions, clock and cursor included, as one user is shown them."""
    shown = await api.group(user, group)
    return {
        "group": shown,
        "history": await api.history(user, group) if shown is not None else None,
        "session": await api.session(user, group),
        "list": await api.all_sessions(user),
        "sync": (await api.data(user, SYNC))["syncSessions"],
        "total": await api.total_unread(user),
        "groups": await api.my_groups(user),
    }


class Witness:
    """Looks at a group with everybody's eyes, and listens on a device of each."""

    def __init__(self, api: Api, group: str, people: Iterable[str]) -> None:
        self._api = api
        self._group = group
        self._people = list(people)
        self._devices: list[Subscriber] = []
        self._stored: dict[str, Json] = {}
        self._seen: list[Json] = []

    async def begin(self) -> None:
        """Takes down how everything is."""
        await self._api.settled()
        for user in self._people:
            for query in (LIVE_MESSAGES, LIVE_SESSIONS):
                self._devices.append(await self._api.listen(user, query))
        self._seen = await self._look()
        self._stored = await self._api.stored()

    async def nothing_happened(self) -> None:
        """Fails where anything is not as it was, or a device was told of something."""
        assert await self._api.stored() == self._stored
        for user, before, now in zip(self._people, self._seen, await self._look(), strict=True):
            assert now == before, user
        await together(*(device.none(SILENCE_SECONDS) for device in self._devices))

    async def _look(self) -> list[Json]:
        return await together(*(seen_by(self._api, user, self._group) for user in self._people))


async def witness(api: Api, group: str, *people: str) -> Witness:
    """A witness that has begun."""
    found = Witness(api, group, people)
    await found.begin()
    return found
