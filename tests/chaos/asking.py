"""How a device asks: over its own socket or by HTTP at any server, and every try and its answer goes into the history."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from tests.chaos.history import Json
from tests.chaos.wire import Line, Lost, Refused, ask_by_http
from tests.chaos.world import World

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before trying again."""

_BY_SOCKET = 0.7
"""How much of what is asked goes over the own socket; the rest goes to any server."""


class GaveUp(Exception):
    """No answer, however often it was asked."""


class Asker:
    """Somebody with a name, who has a socket now and then."""

    def __init__(self, world: World, user: str, name: str, rng: random.Random) -> None:
        self.world = world
        self.user = user
        self.name = name
        self.rng = rng
        self.line: Line | None = None

    async def ask_once(self, kind: str, **variables: Any) -> Any | None:
        """None where nobody knows what was done. Raises Refused."""
        outcomes = self.world.tally.operations[kind]
        try:
            value = await self._ask_once(kind, variables)
        except Refused as refused:
            outcomes[refused.code] += 1
            if not refused.retryable:
                raise
            return None
        except Lost as lost:
            outcomes[f"lost ({lost})"] += 1
            return None
        outcomes["answered"] += 1
        return value

    async def ask(self, kind: str, **variables: Any) -> Any:
        """Until there is an answer, as often as it takes, wherever it comes from. Raises Refused for one that is final, and
        GaveUp."""
        outcomes, pause = self.world.tally.operations[kind], FIRST_PAUSE
        began = time.monotonic()
        while True:
            try:
                value = await self._ask_once(kind, variables)
            except Refused as refused:
                outcomes[refused.code] += 1
                if not refused.retryable:
                    raise
            except Lost as lost:
                outcomes[f"lost ({lost})"] += 1
            else:
                outcomes["answered"] += 1
                self.world.tally.took("somebody was answered", time.monotonic() - began)
                return value
            if time.monotonic() > began + self.world.patience:
                outcomes["given up"] += 1
                raise GaveUp(kind)
            await asyncio.sleep(pause * self.rng.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _ask_once(self, kind: str, variables: Json) -> Any:
        history = self.world.history
        tried = history.invoke(self.name, self.user, kind, variables)
        try:
            value = await self._ask_somewhere(kind, variables)
        except Refused as refused:
            history.answer(tried, refused.code)
            raise
        except Lost:
            history.answer(tried, "lost")
            raise
        history.answer(tried, "ok", value)
        return value

    async def _ask_somewhere(self, kind: str, variables: Json) -> Any:
        line = self.line
        if line is not None and not line.stalled and self.rng.random() < _BY_SOCKET:
            return await line.ask(kind, variables)
        return await ask_by_http(self.world.http, self.world.fleet.pick(self.rng), self.user, kind, variables)
