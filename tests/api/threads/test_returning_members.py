"""Users who lose what they see and get it back: the sessions of their threads never go back to an earlier tick."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import pytest

from store.base.ids import UserId
from store.redis.cache import Call
from store.redis.keys import USER_KEYS
from store.sessions import records
from tests.api.client import Api, Json
from tests.api.conftest import OpenApi
from tests.api.device import ApiDevice
from tests.api.moderation.calls import KICK, ban, unban
from tests.api.sub_biz import sync_sessions
from tests.api.threads.test_following_threads import follow
from tests.api.workspaces.calls import LEAVE, add_members, create_workspace
from tests.api.workspaces.role_calls import UPDATE_ROLE, add_channel, everyone, overwrite
from tests.checking import find_differences
from tests.clock import ManualClock

_SOME_KEYS = ("sessions", "log")

LOSSES: tuple[tuple[Sequence[str], Sequence[str]], ...] = (
    ((), ()),
    (USER_KEYS, ()),
    ((), USER_KEYS),
    (_SOME_KEYS, _SOME_KEYS),
)
"""Keys of a user that Redis loses before they get back what they lost, and after that."""


@dataclass
class Place:
    """A conversation, two people in it, and how the second one loses it and gets it back."""

    owner: str
    user: str
    conversation: str
    lose: Callable[[], Awaitable[object]]
    regain: Callable[[], Awaitable[object]]


async def group_place(api: Api, how: str) -> Place:
    owner, user, other = await api.create_users("owner", "user", "other")
    group = await api.create_group(owner, user, other)
    lose = (lambda: api.leave(user, group)) if how == "leave" else (lambda: api.remove(owner, group, user))
    return Place(owner, user, group, lose, lambda: api.invite(owner, group, user))


async def channel_place(api: Api, how: str) -> Place:
    owner, user = await api.create_users("owner", "user")
    workspace = await create_workspace(api, owner)
    channel = await add_channel(api, workspace)
    await add_members(api, workspace, user)

    async def set_base(*permissions: str) -> None:
        await api.data(owner, UPDATE_ROLE, id=everyone(workspace), input={"permissions": list(permissions)})

    async def end_ban() -> None:
        await unban(api, owner, workspace, user)
        await add_members(api, workspace, user)

    base = ("READ_HISTORY", "SEND_MESSAGES", "SEND_THREADS", "CREATE_THREADS")
    ways: dict[str, tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[object]]]] = {
        "overwrite": (
            lambda: overwrite(api, owner, channel=channel, user=user, deny=["VIEW_CHANNEL"]),
            lambda: overwrite(api, owner, channel=channel, user=user),
        ),
        "role": (lambda: set_base(*base), lambda: set_base("VIEW_CHANNEL", *base)),
        "leave workspace": (
            lambda: api.data(user, LEAVE, id=workspace),
            lambda: add_members(api, workspace, user),
        ),
        "kick": (
            lambda: api.data(owner, KICK, id=workspace, user=user),
            lambda: add_members(api, workspace, user),
        ),
        "ban": (lambda: ban(api, owner, workspace, user), end_ban),
    }
    return Place(owner, user, channel, *ways[how])


async def lose_keys(api: Api, user: str, keys: Sequence[str]) -> None:
    """Let Redis lose some keys of a user."""
    await api.wait_until_idle()
    if not keys:
        return
    store = api.services.app.store
    await store.cache.run([Call("DEL", (store.keys.of_user(UserId(user), name),)) for name in keys])


class PollingDevice:
    """A copy of a user's sessions that asks for changes since its last cursor."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.copy: dict[str, Json] = {}
        self._cursor: str | None = None

    async def sync(self, api: Api) -> None:
        """Ask for what has changed. Fail if the tick of a session goes back, or does not grow with a change."""
        is_first = self._cursor is None
        delta = await sync_sessions(api, self.user, self._cursor)
        assert not delta["hasMore"] and (is_first or not delta["reset"])
        self._cursor = delta["cursor"]
        for session in delta["sessions"]:
            self._take(session)

    async def agrees(self, api: Api) -> None:
        """Fail if the copy is not what a client without state is shown."""
        await self.sync(api)
        fresh = await api.all_sessions(self.user)
        for session in fresh.values():
            self._check(session)
        assert {name: session for name, session in self.copy.items() if session["status"] == "ACTIVE"} == fresh

    def _take(self, session: Json) -> None:
        self._check(session)
        self.copy[session["conversation"]["id"]] = session

    def _check(self, session: Json) -> None:
        known = self.copy.get(session["conversation"]["id"], session)
        assert session["activeTs"] >= known["activeTs"], f"{known}, now {session}"


@pytest.fixture(autouse=True)
def _nothing_is_recent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let loads give no new ticks to sessions that moved a moment ago. In operation they do so for a minute."""
    monkeypatch.setattr(records, "LATE_MS", -1_000_000)


@pytest.fixture(scope="module", params=["one server", "two servers"])
async def servers(open_api: OpenApi, request: pytest.FixtureRequest) -> AsyncIterator[tuple[Api, Api]]:
    """Two servers or one, whose clock stands: every tick is later than the time."""
    clock, name = ManualClock(), request.param.replace(" ", "_")
    async with open_api(name, clock) as one:
        if name == "one_server":
            yield one, one
        else:
            async with open_api(name, clock) as two:
                yield one, two


@pytest.mark.parametrize("how", ["leave", "remove", "overwrite", "role", "leave workspace", "kick", "ban"])
async def test_sessions_of_threads_never_go_back_when_their_user_returns(servers: tuple[Api, Api], how: str) -> None:
    api, other = servers
    place = await (group_place if how in ("leave", "remove") else channel_place)(api, how)
    user = place.user
    parents = [(await api.send(place.owner, place.conversation, text))["message"] for text in ("one", "two")]
    threads = [(await api.send(place.owner, each["id"], "reply"))["message"]["conversationId"] for each in parents]
    for thread in threads:
        await follow(api, user, thread)
    await api.send(place.owner, threads[0], "unread")
    polling, live = PollingDevice(user), ApiDevice(other, user)
    await live.start()
    await polling.sync(other)
    assert polling.copy.keys() >= set(threads)

    async def look() -> None:
        await api.wait_until_idle()
        await other.wait_until_idle()
        await polling.sync(other)
        await live.agrees()

    for lost_between, lost_after in LOSSES:
        await place.lose()
        await look()
        assert [polling.copy[thread]["status"] for thread in threads] == ["INVALID"] * 2
        # Servers notice after a while that Redis has lost where a device is connected.
        await live.stop()
        await lose_keys(other, user, lost_between)
        await place.regain()
        await lose_keys(other, user, lost_after)
        await live.resume(api)
        await look()
        await polling.agrees(api)
        assert [polling.copy[thread]["status"] for thread in threads] == ["ACTIVE"] * 2
    await live.stop()
    assert [each for each in await find_differences(api.services.app.store) if each.object_id == user] == []
