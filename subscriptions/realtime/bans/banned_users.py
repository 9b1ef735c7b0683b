"""Users who are banned from the deployment, kept in memory, because every request checks them (ADR 96).

A change of a ban asks all servers to read it, and is answered when they have. A server that the bus does not reach
reads all bans when it listens again, and every CHECK_SECONDS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from store.base.clock import Clock
from store.base.ids import UserId
from store.base.repeated_read import RepeatedRead
from store.moderation.ban import Ban
from store.moderation.ban_store import BanStore
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.revocations import Revocations
from subscriptions.realtime.server_calls import Json, ServerGone

_log = structlog.get_logger()

ANSWER_SECONDS = 5.0
"""Longest time that a server is waited for."""

_QUESTION = "bans"
_PER_READ = 500
"""Decoding more at once would keep all requests of the process waiting."""

ListServers = Callable[[], Awaitable[Sequence[str]]]
"""Returns the servers that may serve users. Raises StoreError."""

EndWork = Callable[[UserId], Awaitable[None]]
"""Ends the connections of a user, and waits until the user's operations in this process have ended."""


class BannedUsers:
    """The bans from the deployment that this process has read. Empty until `is_known`."""

    def __init__(
        self, server: str, rows: BanStore, bus: Bus, revocations: Revocations, list_servers: ListServers, clock: Clock
    ) -> None:
        self._server = server
        self._rows = rows
        self._bus = bus
        self._revocations = revocations
        self._list_servers = list_servers
        self._clock = clock
        self._bans: dict[UserId, Ban] = {}
        self._reading = asyncio.Lock()
        """Reads are made one after the other, so that no read puts an older state in place of a newer one."""
        self._on_ban: list[EndWork] = []
        bus.calls.answer_kind(_QUESTION, self._answer)
        self.reading = RepeatedRead("bans", self._read_all)
        bus.on_subscribed(self.reading.read_soon)

    @property
    def is_known(self) -> bool:
        """True once they were read from MongoDB."""
        return self.reading.is_known

    def find(self, user: UserId) -> Ban | None:
        """Return the ban of a user that is in force at present."""
        ban = self._bans.get(user)
        return ban if ban is not None and ban.is_in_force(self._clock.now_ms()) else None

    def on_ban(self, end: EndWork) -> None:
        """Call `end` with each user who is banned from now on, before the ban is answered."""
        self._on_ban.append(end)

    async def announce(self, user: UserId, revoked_at_ms: int | None = None) -> None:
        """Let all servers read a stored change of a ban. When this returns, all that the bus reaches have applied it.

        revoked_at_ms: Tokens of the user that were issued before this time (ms) are refused from now on.

        Raises Unreachable: a server does not answer. It applies the change within CHECK_SECONDS.
        """
        question: Json = {_QUESTION: user, "revoked": revoked_at_ms}
        servers = {self._server, *await self._list_servers()}
        answers = await asyncio.gather(*(self._ask(server, question) for server in servers), return_exceptions=True)
        for failure in answers:
            if isinstance(failure, BaseException):
                raise failure

    async def _ask(self, server: str, question: Json) -> None:
        if server == self._server:
            await self._answer(question)
            return
        try:
            await self._bus.calls.ask(server, question, timeout_seconds=ANSWER_SECONDS)
        except ServerGone:
            # It has died, or reads all bans when it listens again.
            _log.info("ban_not_announced", server=server)

    async def _answer(self, question: Json) -> Json:
        """Read the ban of one user. Raises StoreError."""
        user, revoked_at_ms = UserId(question[_QUESTION]), question["revoked"]
        async with self._reading:
            ban = await self._rows.find(None, user, self._clock.now_ms())
            if ban is not None:
                self._bans[user] = ban
            else:
                self._bans.pop(user, None)
        if ban is not None:
            await self._end([user])
        if revoked_at_ms is not None:
            # After the ban, which says why connections end.
            self._revocations.add({user: revoked_at_ms})
        return {}

    async def _read_all(self) -> None:
        async with self._reading:
            found: dict[UserId, Ban] = {}
            after: UserId | None = None
            while True:
                page = await self._rows.list(None, after, _PER_READ, self._clock.now_ms())
                found |= {ban.user: ban for ban in page}
                if len(page) < _PER_READ:
                    break
                after = page[-1].user
            # A known ban may have ended by itself, and the user may be connected again.
            now_ms, known = self._clock.now_ms(), self._bans
            new = [user for user in found if user not in known or not known[user].is_in_force(now_ms)]
            self._bans = found
        await self._end(sorted(new))

    async def _end(self, users: Sequence[UserId]) -> None:
        for user in users:
            for end in self._on_ban:
                await end(user)
