"""Sends requests over a device's socket or by HTTP to any server, and notes each try and its answer in the history."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.chaos.judges.history import Json
from tests.chaos.load.connection import AnswerLost, LoadConnection, RequestFailed, request_by_http
from tests.chaos.load.load_state import INBOX, LoadState, without_threads

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before the next try: the first pause, and the longest."""

_BY_SOCKET = 0.7
"""The share of requests that use the device's own socket; the others go to any server by HTTP."""


class GaveUp(Exception):
    """Raised when no try was answered in time."""


class Requester:
    """A device as a sender of requests. It has a socket at times."""

    def __init__(self, load: LoadState, user: str, name: str, rng: random.Random) -> None:
        self.load = load
        self.user = user
        self.name = name
        self.rng = rng
        self.connection: LoadConnection | None = None

    async def request_once(self, operation: str, **variables: Any) -> Any | None:
        """Send a request once. Returns None if the outcome is unknown. Raises RequestFailed for a final error."""
        outcomes = self.load.tally.operations[operation]
        try:
            value = await self._try(operation, variables)
        except RequestFailed as failed:
            outcomes[failed.code] += 1
            if not failed.retryable:
                raise
            return None
        except AnswerLost as lost:
            outcomes[f"lost ({lost})"] += 1
            return None
        outcomes["answered"] += 1
        return value

    async def request(self, operation: str, **variables: Any) -> Any:
        """Send a request until it is answered.

        Raises:
            RequestFailed: The API answered with an error that is final.
            GaveUp: No try was answered in time.
        """
        return await self.repeat(operation, lambda: self._try(operation, variables))

    async def repeat(self, operation: str, attempt: Callable[[], Awaitable[Any]]) -> Any:
        """Repeat an attempt, which raises RequestFailed or AnswerLost, until it is answered.

        Raises:
            RequestFailed: The answer was an error that is final.
            GaveUp: No try was answered in time.
        """
        outcomes, pause = self.load.tally.operations[operation], FIRST_PAUSE
        began = time.monotonic()
        while True:
            try:
                value = await attempt()
            except RequestFailed as failed:
                outcomes[failed.code] += 1
                if not failed.retryable:
                    raise
            except AnswerLost as lost:
                outcomes[f"lost ({lost})"] += 1
            else:
                outcomes["answered"] += 1
                self.load.tally.note_duration("a request was answered", time.monotonic() - began)
                return value
            if time.monotonic() > began + self.load.patience:
                outcomes["given up"] += 1
                raise GaveUp(operation)
            await asyncio.sleep(pause * self.rng.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _try(self, operation: str, variables: Json) -> Any:
        history = self.load.history
        number = history.invoke(self.name, self.user, operation, variables)
        try:
            value = await self._send(operation, variables)
        except RequestFailed as failed:
            history.answer(number, failed.code)
            raise
        except AnswerLost:
            history.answer(number, "lost")
            raise
        history.answer(number, "ok", value)
        return value

    async def _send(self, operation: str, variables: Json) -> Any:
        connection = self.connection
        if connection is not None and not connection.stalled and self.rng.random() < _BY_SOCKET:
            return await connection.request(operation, variables)
        server = self.load.servers.pick(self.rng)
        return await request_by_http(self.load.http, server, self.user, operation, variables)

    async def read_sessions(self, since: str | None = None, page: int = 100) -> tuple[list[Json], Json]:
        """Follow syncSessions to its end. Returns the sessions in order without threads, and the last answer."""
        delta = await self.request("syncSessions", since=since, first=page)
        found: list[Json] = delta["sessions"]
        reset = delta["reset"]
        while delta["hasMore"]:
            delta = await self.request("syncSessions", since=delta["cursor"], first=page)
            found = delta["sessions"] if delta["reset"] else found + delta["sessions"]
            reset = reset or delta["reset"]
        inbox = [session for session in found if session["conversation"]["id"] == INBOX]
        total = delta["totalUnread"] - sum(session["unreadCount"] for session in inbox)
        return without_threads(found), delta | {"reset": reset, "totalUnread": total}

    async def read_list(self, sub_biz: str | None = None, category: str | None = None) -> list[Json]:
        """Return a whole session list without the threads inbox, in order."""
        found: list[Json] = []
        after = None
        while True:
            page = await self.request("sessions", first=100, after=after, subBiz=sub_biz, category=category)
            found += [edge["node"] for edge in page["edges"]]
            after = page["pageInfo"]["endCursor"]
            if not page["pageInfo"]["hasNextPage"]:
                return without_threads(found)
